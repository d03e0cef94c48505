//! What is left of logins in a build without the feature `auth`: types that have no values.
//!
//! Code that uses an identity compiles unchanged, and the compiler removes it. A server that requires
//! a login is an error.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::connection::PromptClock;
use bowline_config::Server;
use bowline_transport::http::Credentials;

#[derive(Clone)]
pub(crate) struct Auth(Infallible);

#[derive(Clone)]
pub(crate) struct Identity(Infallible);

#[derive(PartialEq)]
pub(crate) struct AuthError {
    pub(crate) kind: AuthErrorKind,
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

#[derive(PartialEq)]
#[expect(dead_code, reason = "no value of this type exists in this build")]
pub(crate) enum AuthErrorKind {
    Command,
    LoginNeeded,
    Other,
    PlainHttp,
    Store,
    Unavailable,
}

#[derive(Clone, PartialEq)]
#[expect(dead_code, reason = "no value of this type exists in this build")]
pub(crate) enum RefreshState {
    Idle,
    AuthorizationServer,
    OtherProcess(Option<u32>),
    Store(Arc<AuthError>),
}

pub(crate) struct RefusedRequest;

impl RefusedRequest {
    pub(crate) fn new(_status: u16, _challenges: Vec<String>, _generation: u64, _operation: &str) -> Self {
        Self
    }

    pub(crate) fn in_background(self) -> Self {
        self
    }
}

/// A value that changes; there is none in this build.
#[derive(Clone)]
pub(crate) struct Watch<T>(Infallible, PhantomData<T>);

#[expect(clippy::unused_async, reason = "the signatures are those of the functions that they replace")]
impl<T> Watch<T> {
    pub(crate) fn current(&self) -> T {
        match self.0 {}
    }

    pub(crate) async fn changed(&mut self) -> Option<T> {
        match self.0 {}
    }
}

/// There are no identities in this build.
pub(crate) fn identity_without_person(_server: &Server) -> Option<Identity> {
    None
}

impl Auth {
    pub(crate) fn identity_with_clock(&self, _: &Server, _: &Arc<PromptClock>) -> Option<Identity> {
        match self.0 {}
    }
}

#[expect(clippy::unused_async, reason = "the signatures are those of the functions that they replace")]
impl Identity {
    pub(crate) fn credentials(&self) -> Arc<dyn Credentials> {
        match self.0 {}
    }

    pub(crate) fn has_credentials(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_interactive(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_due(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn generation(&self) -> u64 {
        match self.0 {}
    }

    pub(crate) fn watch_generation(&self) -> Watch<u64> {
        match self.0 {}
    }

    pub(crate) fn login_fingerprint(&self) -> u64 {
        match self.0 {}
    }

    pub(crate) fn refresh_state(&self) -> Watch<RefreshState> {
        match self.0 {}
    }

    pub(crate) async fn load(&self) -> Result<(), AuthError> {
        match self.0 {}
    }

    pub(crate) async fn refresh_if_due(&self) -> Result<(), AuthError> {
        match self.0 {}
    }

    pub(crate) async fn reauthenticate(&self, _: &RefusedRequest) -> Result<(), AuthError> {
        match self.0 {}
    }

    pub(crate) async fn keep_refreshed(&self) {
        match self.0 {}
    }

    pub(crate) async fn shut_down(&self) -> Result<(), AuthError> {
        match self.0 {}
    }
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
