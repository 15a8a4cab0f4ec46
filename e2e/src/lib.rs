//! What Lockstep's tests and its demo stand on: real servers, real processes, and the judge.
