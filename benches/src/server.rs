//! The server that every client is measured against: fast, correct in both protocol eras, and the
//! same over HTTP and pipes. A second one, built with rmcp, is there to be killed.

pub(crate) mod http;
mod response;
pub(crate) mod rmcp;
pub(crate) mod stdio;
mod tools;

use std::io::Read as _;

/// Ends this process when its stdin closes, which it does when the one that started it exits.
pub(crate) fn exit_with_stdin() {
    std::thread::spawn(|| {
        let mut ignored = [0; 64];
        while std::io::stdin().read(&mut ignored).is_ok_and(|n| n > 0) {}
        std::process::exit(0);
    });
}
