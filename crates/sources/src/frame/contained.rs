//! Other people's decoders, kept from taking the program down.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Error, Result};

/// Decodes one picture; a panic in it is an error of that picture. What the decoder left half done is overwritten by the next
/// picture or dropped, so nothing broken is seen afterwards.
pub(super) fn contained<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(Error::input("the decoder failed on this picture")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_the_picture() {
        let error = contained(|| -> Result<()> { panic!("a decoder's fault, on purpose") }).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert_eq!(contained(|| Ok(7)).unwrap(), 7);
    }
}
