//! Lifetimes and logs on a clock that the test sets.
