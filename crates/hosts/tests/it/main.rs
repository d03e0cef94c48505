//! Files of hosts, as people have them, and what is read from them.

mod import;
mod read;
