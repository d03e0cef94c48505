//! The real binary, in its own home, against real servers. A snapshot contains exit code, stdout
//! and stderr, which scripts and people rely on.

mod add_registry;
#[cfg(unix)]
mod add_terminal;
#[cfg(unix)]
mod argument_form;
#[cfg(unix)]
mod browser;
mod call;
mod canaries;
#[cfg(target_os = "linux")]
mod children;
#[cfg(target_os = "linux")]
mod clock;
mod complete;
mod config;
mod connect;
mod content;
mod context;
mod demo;
mod docs;
mod doctor;
#[cfg(target_os = "linux")]
mod dump;
#[cfg(unix)]
mod elicit;
mod entries;
#[cfg(unix)]
mod examples;
mod failures;
mod finding;
mod grammar;
#[cfg(unix)]
mod hooks;
mod import_servers;
mod info;
mod install;
#[cfg(unix)]
mod interrupt;
mod lists;
#[cfg(unix)]
mod login;
#[cfg(unix)]
mod logs;
mod lone_surrogates;
mod negotiations;
#[cfg(unix)]
mod process_pool;
#[cfg(unix)]
mod ps;
#[cfg(unix)]
mod pty;
mod read;
mod redact;
#[cfg(unix)]
mod repl;
#[cfg(unix)]
mod resources;
mod serve;
#[cfg(unix)]
mod serve_activation;
#[cfg(unix)]
mod serve_front;
#[cfg(unix)]
mod serve_grid;
#[cfg(unix)]
mod serve_limits;
#[cfg(unix)]
mod serve_lists;
#[cfg(unix)]
mod serve_loop;
#[cfg(unix)]
mod serve_oauth;
#[cfg(unix)]
mod serve_reload;
mod serve_restart;
#[cfg(unix)]
mod serve_stop;
#[cfg(unix)]
mod serve_tasks;
#[cfg(unix)]
mod serve_trust;
#[cfg(unix)]
mod serve_views;
mod status;
#[cfg(unix)]
mod stubborn_server;
mod tasks;
#[cfg(unix)]
mod terminal;
mod trust;
#[cfg(unix)]
mod unread_stderr;
#[cfg(unix)]
mod watch;
