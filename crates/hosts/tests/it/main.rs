//! Files of hosts as their users have them.

mod edit_bytes;
mod edit_forms;
mod edit_properties;
