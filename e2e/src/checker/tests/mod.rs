//! Good histories pass; each way of breaking one is noticed, and called by its name.

mod broken;
mod excused;
mod measured;
mod model;
mod properties;
