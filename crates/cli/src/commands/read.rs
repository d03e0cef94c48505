//! `bowline read`

use bowline::view::Body;

use crate::args::ReadArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::save::{Saver, decoded};
use crate::print::{self, content};
use crate::session;
use crate::settings::Settings;
use crate::settings::words::Words;

pub(super) async fn run(args: ReadArgs, settings: &Settings) -> Outcome {
    let ReadArgs { words, save, target } = args;
    let mut words = Words::new("read", "URI", words, &target.command)?;
    let uri = words.take("URI", "`bowline resources` lists a server's resources")?;
    let name = words.end()?;
    let server = settings.server(name.as_deref(), target)?;
    let stem = uri.rsplit(['/', ':']).find(|part| !part.is_empty()).unwrap_or("resource");
    let to_files = save.is_some();
    let saver = Saver::new(save, stem);
    saver.prepare().map_err(Failure::usage)?;
    let printer = &settings.printer;
    let result = session::with(settings, &server, async |client| client.read_resource(&uri).await).await?;
    for dropped in &result.dropped {
        printer.note(&format!("a part of the resource was left out: {}", dropped.reason));
    }
    if printer.is_json() {
        printer.json(result.json.as_str())?;
        return Ok(Exit::Ok);
    }
    // `bowline read … > picture.png` gives the picture.
    if let ([part], false, false) = (result.contents.as_slice(), to_files, printer.on_terminal())
        && let Body::Blob(blob) = &part.body
        && let Some(bytes) = decoded(&blob.get())
    {
        print::bytes(&bytes)?;
        return Ok(Exit::Ok);
    }
    for part in &result.contents {
        if result.contents.len() > 1 {
            content::heading(printer, part)?;
        }
        content::contents(printer, &saver, part)?;
    }
    if result.contents.is_empty() {
        printer.note("the resource is empty");
    }
    Ok(Exit::Ok)
}
