//! What becomes of servers that are found.
