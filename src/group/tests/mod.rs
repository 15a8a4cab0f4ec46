//! The core, told as stories: a transcript per sentence of `docs/protocol.md`, and properties.

mod scene;

mod deadlines;
mod epochs;
mod hand_over;
mod joining;
mod member;
mod properties;
mod same_id;
mod seeding;
mod standing_still;
mod who_coordinates;
mod who_is_alive;
