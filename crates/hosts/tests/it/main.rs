//! Files of hosts, as people have them: what is read from them, and how they are changed.

mod edit_bytes;
mod edit_forms;
mod edit_properties;
mod import;
mod read;
