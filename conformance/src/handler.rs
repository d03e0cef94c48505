//! A person who agrees to everything and fills in what was suggested.

use std::future::Future;
use std::pin::Pin;

use bowline::view::{Answer as Reply, Elicitation};
use bowline::wire::{Json, RpcError, code, method};
use bowline::{Answer, Handler, ServerRequest};

pub(crate) struct AcceptDefaults;

impl Handler for AcceptDefaults {
    fn capabilities(&self) -> Json {
        Json::parse(r#"{"elicitation":{"form":{}}}"#).expect("valid JSON")
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
        Box::pin(async move {
            let invalid = |message: String| RpcError { code: code::INVALID_PARAMS, message, data: None };
            if *request.method != *method::ELICIT {
                return Err(invalid(format!("{} is not served", request.method)));
            }
            match Elicitation::decode(&request.params).map_err(|error| invalid(error.to_string()))? {
                Elicitation::Form(form) => Ok(Reply::Accept(Some(form.defaults())).to_json()),
                // EL-12: not declared.
                Elicitation::Url(_) => Err(invalid("URL mode is not served".to_owned())),
            }
        })
    }
}
