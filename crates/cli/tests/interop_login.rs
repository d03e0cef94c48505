//! Logins against real implementations: `oidc-provider` as authorization server, protected servers
//! of the TypeScript SDK and FastMCP, and a headless Chromium for the person. The TypeScript SDK,
//! the Python SDK and FastMCP also issue tokens themselves.
//!
//! Screenshots of the pages are left in `target/interop-login`.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

#[expect(dead_code, reason = "shared with tests that need more of it")]
#[path = "it/browser.rs"]
mod browser;
#[path = "interop_login/chromium.rs"]
mod chromium;
#[path = "interop_login/clients.rs"]
mod clients;
#[expect(dead_code, unused_imports, unused_macros, reason = "shared with tests that need more of it")]
#[path = "it/context.rs"]
mod context;
#[path = "interop_login/device.rs"]
mod device;
#[path = "interop_login/issuing.rs"]
mod issuing;
#[path = "interop_login/pages.rs"]
mod pages;
#[path = "interop_login/proofs.rs"]
mod proofs;
#[expect(dead_code, reason = "shared with tests that need more of it")]
#[path = "it/pty.rs"]
mod pty;
#[path = "interop_login/renewal.rs"]
mod renewal;
#[path = "interop_login/rights.rs"]
mod rights;
#[path = "interop_login/script.rs"]
mod script;
#[path = "interop_login/site.rs"]
mod site;
#[path = "interop_login/whole.rs"]
mod whole;
