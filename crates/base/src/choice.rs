//! Values that a user picks by name: one of a few words, each with a line of help.

use std::fmt;

/// One of a few values that have names: on the command line, in a file, in a web address.
pub trait Choice: Copy + PartialEq + Send + Sync + 'static {
    /// Every value with its name and what it is, in the order in which help lists them.
    const ALL: &'static [(Self, &'static str, &'static str)];

    /// The value of that name.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(value, _, _)| *value)
    }

    /// Its name.
    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(value, _, _)| *value == self).map_or("", |(_, name, _)| name)
    }

    /// Writes the name: the `Display` of every choice.
    ///
    /// # Errors
    /// As the formatter's.
    fn write_name(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Declares an enum whose values have names and help, and makes it a [`Choice`] that displays as its name.
#[macro_export]
macro_rules! choices {
    ($(#[$outer:meta])* pub enum $enum:ident {
        $($(#[$inner:meta])* $variant:ident = $name:literal: $help:literal),+ $(,)?
    }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $enum {
            $(#[doc = $help] $(#[$inner])* $variant,)+
        }

        impl $crate::Choice for $enum {
            const ALL: &'static [(Self, &'static str, &'static str)] =
                &[$((Self::$variant, $name, $help)),+];
        }

        impl ::std::fmt::Display for $enum {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::Choice::write_name(*self, f)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    choices! {
        /// A fruit.
        #[allow(unreachable_pub)]
        pub enum Fruit {
            Apple = "apple": "Grows on trees",
            BlackBerry = "black-berry": "Grows on canes",
        }
    }

    #[test]
    fn a_choice_is_found_by_its_name_and_shown_by_it() {
        assert_eq!(Fruit::named("black-berry"), Some(Fruit::BlackBerry));
        assert_eq!(Fruit::named("BlackBerry"), None);
        assert_eq!(Fruit::Apple.to_string(), "apple");
        assert_eq!(Fruit::ALL.len(), 2);
    }
}
