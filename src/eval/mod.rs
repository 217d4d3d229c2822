//! How well categories and representations fit a ground truth: adjusted mutual information, average precision of
//! recognition, k-nearest-neighbour read-out.
//!
//! The measures work on labels, scores and feature rows alone; who produced them is not their business. They refuse
//! input that has no defined score instead of returning one that looks like a result.

mod ami;
mod average_precision;
mod knn;

pub use ami::ami;
pub use average_precision::average_precision;
pub use knn::NearestNeighbours;
