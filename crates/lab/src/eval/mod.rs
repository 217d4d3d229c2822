//! How well categories and representations fit a ground truth: adjusted mutual information, average precision of
//! recognition, k-nearest-neighbour and linear read-out.
//!
//! The measures work on labels, scores and feature rows alone; who produced them is not their business. They refuse
//! input that has no defined score instead of returning one that looks like a result. [`episodes`] applies them as the
//! paper does, to what [`embed`] made of the pictures of a stream with an encoder of this project or a [`frozen`] one.

mod average_precision;
pub mod embed;
pub mod embedded;
pub mod episodes;
pub mod frozen;
mod knn;
pub mod linear;
pub mod picture;
pub mod readout;
mod tsne;

pub use average_precision::average_precision;
pub use knn::NearestNeighbours;
pub use linear::LinearReadout;
pub use oupn_readout::ami;
pub use readout::Protocol;
