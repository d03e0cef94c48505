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
#[path = "interop_login/dpop.rs"]
mod dpop;
#[path = "interop_login/full_login.rs"]
mod full_login;
#[path = "interop_login/pages.rs"]
mod pages;
#[expect(dead_code, reason = "shared with tests that need more of it")]
#[path = "it/pty.rs"]
mod pty;
#[path = "interop_login/refresh.rs"]
mod refresh;
#[path = "interop_login/script.rs"]
mod script;
#[path = "interop_login/sdk_issuers.rs"]
mod sdk_issuers;
#[path = "interop_login/site.rs"]
mod site;
#[path = "interop_login/step_up.rs"]
mod step_up;
