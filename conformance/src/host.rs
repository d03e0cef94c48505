//! The host around the client under test: it supports every server request, and agrees to
//! everything.

use bowline::host::{
    Elicit, FormRequest, Host, HostFuture, Modes, Root, Roots, Sample, SampleRequest, SamplingRefusal,
    UrlRequest,
};
use bowline::types::{ElicitResult, FieldKind, Form, SamplingResult};
use bowline::{Json, skills};
use serde_json::{Map, Value};

/// Builds a host with a root, a user and a model.
pub(crate) fn build_host() -> Result<Host, Box<dyn std::error::Error>> {
    let folder = Root::folder(std::env::current_dir()?)?;
    Ok(Host::new()
        .roots(Roots::new([folder]))
        .elicitation(AgreeableUser)
        .sampling(FixedModel)
        .extension(skills::EXTENSION, Json::empty_object()))
}

/// A user who accepts the defaults of every form, and agrees to the rest.
struct AgreeableUser;

impl Elicit for AgreeableUser {
    fn modes(&self) -> Modes {
        Modes::FORM
    }

    fn form(&self, request: FormRequest) -> HostFuture<'_, ElicitResult> {
        Box::pin(async move {
            fill_in(&request.form).map_or(ElicitResult::Cancel, |form| ElicitResult::Accept(Some(form)))
        })
    }

    fn url(&self, _: UrlRequest) -> HostFuture<'_, ElicitResult> {
        Box::pin(async { ElicitResult::Cancel })
    }
}

fn fill_in(form: &Form) -> Option<Json> {
    let mut answers: Map<String, Value> = form.defaults().decode().ok()?;
    for field in form.fields.iter().filter(|field| field.default.is_none()) {
        if field.kind == FieldKind::Boolean {
            answers.insert(field.name.to_string(), true.into());
        }
    }
    Json::encode(&answers).ok()
}

/// A model that always returns the same text.
struct FixedModel;

impl Sample for FixedModel {
    fn sample(&self, _: SampleRequest) -> HostFuture<'_, Result<SamplingResult, SamplingRefusal>> {
        Box::pin(async { Ok(SamplingResult::text("parrot", "Hello.")) })
    }
}
