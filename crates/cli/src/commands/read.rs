//! Implements `bowline read`.

use std::collections::BTreeMap;
use std::io::Write as _;

use bowline::templates::{Template, Value};
use bowline::types::ResourceBody;

use crate::args::ReadArgs;
use crate::arguments::parse_pair;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::media::base64;
use crate::session;
use crate::settings::Settings;
use crate::settings::positional::PositionalArgs;

pub(super) async fn run(args: ReadArgs, settings: &Settings) -> Outcome {
    let ReadArgs { words, content, host: _, target } = args;
    let mut words = PositionalArgs::new("read", "URI [KEY=VALUE]...", words, &target.command)?;
    let uri = words.take_required("URI", "`bowline resources` lists a server's resources")?;
    let server = settings.resolve_server(words.server(), target)?;
    let typed = words.server().map(ToOwned::to_owned);
    let uri = expand_uri(uri, words.into_pairs()?)?;
    let stem = uri.rsplit(['/', ':']).find(|part| !part.is_empty()).unwrap_or("resource");
    let to_files = content.save.is_some();
    let viewer = settings.viewer(content, stem)?.for_server(typed.as_deref());
    let printer = &settings.printer;
    let result =
        session::with_client(settings, &server, async |client| client.read_resource(&uri).await).await?;
    for dropped in &result.dropped {
        printer.note(&format!("a part of the resource was left out: {}", dropped.reason));
    }
    if printer.is_json() {
        printer.write_json(result.json.as_str())?;
        viewer.save_contents(&result.contents)?;
        return Ok(Exit::Ok);
    }
    // `bowline read … > picture.png` writes the picture itself.
    if let ([part], false, false) = (result.contents.as_slice(), to_files, printer.on_terminal())
        && let ResourceBody::Blob(blob) = &part.body
        && base64::is_valid(&blob.get())
    {
        let mut out = std::io::stdout().lock();
        if let Err(base64::DecodeError::Sink(error)) = base64::decode_into(&blob.get(), &mut out) {
            return Err(Failure::Output(error));
        }
        out.flush()?;
        return Ok(Exit::Ok);
    }
    for part in &result.contents {
        if result.contents.len() > 1 {
            viewer.show_heading(part)?;
        }
        viewer.show_contents(part)?;
    }
    if result.contents.is_empty() {
        printer.note("the resource is empty");
    }
    Ok(Exit::Ok)
}

/// Returns the URI to read. With variables, it is a template of RFC 6570; a URI without any is used
/// as it is.
// RS-05.
pub(super) fn expand_uri(uri: String, pairs: Vec<String>) -> Outcome<String> {
    if pairs.is_empty() {
        return match Template::parse(&uri).ok().filter(|template| template.variables().next().is_some()) {
            Some(template) => Err(missing_variables_failure(&uri, template.variables())),
            None => Ok(uri),
        };
    }
    let template = Template::parse(&uri).map_err(|error| Failure::usage(format!("`{uri}`: {error}")))?;
    let mut values: BTreeMap<String, Value> = BTreeMap::new();
    let mut given: Vec<String> = Vec::new();
    for pair in pairs {
        let (key, value) = parse_pair(&pair)?;
        if !template.variables().any(|name| name == key) {
            let all: Vec<&str> = template.variables().collect();
            let hint =
                if all.is_empty() { "it has none".into() } else { format!("it has {}", all.join(", ")) };
            return Err(Failure::usage_hint(format!("`{uri}` has no variable `{key}`"), hint));
        }
        given.push(key.to_owned());
        if value.is_empty() {
            continue;
        }
        // A variable that is given again becomes a list.
        let value = match values.remove(key) {
            Some(Value::Text(first)) => Value::List(vec![first, value.to_owned()]),
            Some(Value::List(mut list)) => {
                list.push(value.to_owned());
                Value::List(list)
            }
            Some(Value::Map(_)) | None => Value::from(value),
        };
        values.insert(key.to_owned(), value);
    }
    let left: Vec<&str> = template.variables().filter(|name| !given.iter().any(|key| key == name)).collect();
    // The RFC omits undefined variables, but in a path that names a different resource.
    if !left.is_empty() {
        return Err(missing_variables_failure(&uri, left.into_iter()));
    }
    template.expand(&values).map_err(|error| Failure::usage(format!("`{uri}`: {error}")))
}

fn missing_variables_failure<'a>(template: &str, names: impl Iterator<Item = &'a str>) -> Failure {
    let wanted: Vec<String> = names.map(|name| format!("{name}=…")).collect();
    let hint = "a variable that is to be left out is written `name=`";
    Failure::usage_hint(format!("the template `{template}` also needs {}", wanted.join(" ")), hint)
}
