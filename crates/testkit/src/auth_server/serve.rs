//! One request to the authorization server from its arrival to its response, with the faults that
//! strike it.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::Response;
use hyper::http::request::Parts;
use serde_json::json;

use super::ask::{Ask, Outcome};
use super::protect::{Protected, origin_of};
use super::twist::Kind;
use super::{Core, authorize, device, jwt, metadata, register, token};
use crate::answer::Answer;
use crate::canary::{self, SECRET};
use crate::http::Conn;
use crate::sync::{lock, pause};

pub(super) type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The owner of the port that received a request: the authorization server, or an MCP server it
/// protects.
#[derive(Clone, Copy)]
pub(crate) enum Ground<'a> {
    Own(&'a Core),
    Beside(&'a Protected),
}

pub(crate) async fn serve(ground: Ground<'_>, conn: &Arc<Conn>, head: &Parts, body: &[u8]) -> Reply {
    let (core, mut ask) = match ground {
        Ground::Own(core) => (core, Ask::read(&core.origin, head, body)),
        Ground::Beside(protected) => (&*protected.core, Ask::read(&origin_of(head), head, body)),
    };
    if ask.path == "/counts" {
        return whole(&Outcome::ok(json!(core.log.counts())).answer());
    }
    let there = place(ground, &mut ask);
    let grant = ask.grant().unwrap_or_default().to_owned();
    let names = [if there { ask.endpoint } else { "" }, &grant, &ask.path];
    // Faults are taken before the request is recorded: a fault that a test arms when it sees a
    // request is meant for the next one.
    ask.struck = core.armory.take(&names);
    let seq = core.log.record(ask.seen());
    core.watch(&ask);
    pause(ask.struck.delay()).await;
    match ask.struck.before() {
        None => {}
        Some(kind @ (Kind::Error { .. } | Kind::Nonce)) => {
            let outcome = core.refuse(&ask, kind);
            return finish(core, seq, &ask, outcome);
        }
        Some(kind) => return fail(core, seq, kind, conn).await,
    }
    let outcome = if there { route(ground, core, &ask) } else { Outcome::Plain(404) };
    match ask.struck.after() {
        None => finish(core, seq, &ask, outcome),
        Some(kind @ (Kind::Error { .. } | Kind::Nonce)) => {
            let outcome = core.refuse(&ask, kind);
            finish(core, seq, &ask, outcome)
        }
        Some(Kind::Oversized(bytes)) => {
            let mut answer = outcome.answer();
            answer.body.resize(answer.body.len() + usize::try_from(*bytes).unwrap_or(usize::MAX), b' ');
            core.log.answered(seq, answer.status, outcome.code());
            whole(&answer)
        }
        Some(kind) => fail(core, seq, kind, conn).await,
    }
}

/// Finds the endpoint of a request, and returns whether it exists: a metadata request gets its
/// endpoint name even where nothing is published.
fn place(ground: Ground<'_>, ask: &mut Ask) -> bool {
    let core = match ground {
        Ground::Beside(protected) if protected.is_metadata(&ask.path) => {
            ask.endpoint = "prm";
            return protected.metadata_at(&ask.path);
        }
        Ground::Beside(protected) => &protected.core,
        Ground::Own(core) => core,
    };
    let script = core.script();
    let serves = match ground {
        Ground::Own(_) => true,
        Ground::Beside(protected) => protected.authorization,
    };
    if ask.path.contains("/.well-known/o") {
        ask.endpoint = if ask.path.contains("oauth-protected-resource") { "prm" } else { "metadata" };
        return serves && metadata::is_at(&script, &ask.path);
    }
    if !serves {
        return false;
    }
    let Some(name) = ask.path.strip_prefix(&script.path) else { return false };
    ask.endpoint = match name {
        "/authorize" => "authorize",
        "/token" => "token",
        "/register" if script.registration => "register",
        "/device" if script.device => "device",
        "/verify" if script.device => "verify",
        "/revoke" => "revoke",
        "/jwks" => "jwks",
        "/userinfo" => "userinfo",
        _ => return false,
    };
    true
}

fn route(ground: Ground<'_>, core: &Core, ask: &Ask) -> Outcome {
    match (ask.endpoint, ask.method.as_str()) {
        ("prm", "GET") => match ground {
            Ground::Beside(protected) => Outcome::ok(protected.document(&ask.origin)),
            Ground::Own(_) => Outcome::Plain(404),
        },
        ("metadata", "GET") => Outcome::ok(metadata::document(core, &ask.origin)),
        ("authorize", "GET" | "POST") => authorize::authorize(core, ask),
        ("token", "POST") => token::token(core, ask),
        ("register", "POST") => register::register(core, ask),
        ("device", "POST") => device::begin(core, ask),
        ("verify", "GET" | "POST") => device::verify(core, ask),
        ("revoke", "POST") => token::revoke(core, ask),
        ("jwks", "GET") => Outcome::ok(json!({"keys": [core.key.jwk()]})),
        ("userinfo", "GET" | "POST") => token::userinfo(core, ask),
        _ => Outcome::Plain(405),
    }
}

impl Core {
    /// Returns an injected error, in the form of its endpoint.
    fn refuse(&self, ask: &Ask, kind: &Kind) -> Outcome {
        let (status, code, description) = if let Kind::Error { status, code, description } = kind {
            (*status, code.as_str(), description.as_deref())
        } else {
            lock(&self.vault).nonce = Some(jwt::random());
            (400, "use_dpop_nonce", Some("a nonce is needed"))
        };
        let mut members = json!({"error": code});
        if let Some(description) = description {
            members["error_description"] = json!(description);
        }
        match (ask.endpoint, ask.field("redirect_uri")) {
            ("authorize", Some(to)) => authorize::back(self, ask, to, members),
            _ => Outcome::Json(status, members, vec![]),
        }
    }

    /// Records secrets in places where no client may send them.
    fn watch(&self, ask: &Ask) {
        let secret = |value: &str| value.contains(SECRET);
        // These are generated by the client, which must not leak them either.
        for field in ["code_verifier", "client_assertion"] {
            ask.field(field).into_iter().for_each(canary::record_secret);
        }
        if ask.endpoint != "authorize" && ask.method == "GET" && ask.form.values().any(|value| secret(value))
        {
            self.log.violation(format!("a secret in the query of {}", ask.path));
        }
        let public = ["metadata", "authorize", "register", "jwks"].contains(&ask.endpoint);
        if public && ask.header("authorization").is_some_and(secret) {
            self.log.violation(format!("TK-02: a token sent to {}", ask.path));
        }
    }
}

fn finish(core: &Core, seq: u64, ask: &Ask, mut outcome: Outcome) -> Reply {
    outcome.bend(&ask.struck);
    let mut answer = outcome.answer();
    if ask.endpoint == "token"
        && let Some(nonce) = lock(&core.vault).nonce.clone()
    {
        answer = answer.header("dpop-nonce", &nonce);
    }
    core.log.answered(seq, answer.status, outcome.code());
    whole(&answer)
}

/// Applies a fault that leaves nothing of the response.
async fn fail(core: &Core, seq: u64, kind: &Kind, conn: &Arc<Conn>) -> Reply {
    match kind {
        Kind::Answer(answer) => {
            core.log.answered(seq, answer.status, None);
            return whole(answer);
        }
        Kind::Endless => {
            core.log.answered(seq, 200, None);
            return respond(
                &Answer::new(200).header("content-type", "application/json"),
                UnsyncBoxBody::new(Endless),
            );
        }
        Kind::Reset => conn.reset(),
        Kind::Close => conn.close(),
        _ => {}
    }
    pending().await
}

pub(super) fn whole(answer: &Answer) -> Reply {
    respond(answer, UnsyncBoxBody::new(Full::from(answer.body.clone())))
}

fn respond(answer: &Answer, body: UnsyncBoxBody<Bytes, Infallible>) -> Reply {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    response.body(body).expect("a test dictates a valid status and valid headers")
}

/// A body of whitespace that never ends.
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        const CHUNK: &[u8] = &[b' '; 16 << 10];
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(CHUNK)))))
    }
}
