//! What several integration tests share.

pub(crate) mod plain_window;
