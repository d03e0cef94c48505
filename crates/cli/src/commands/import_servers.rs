//! Implements `bowline import`.

mod claude_settings;
mod host_files;
mod secret_files;
mod summary;
pub(super) mod unused_secrets;

use bowline::config::Source;
use bowline_config::parse_partial;
use bowline_hosts::{ImportAction, PlannedServer, ServerEntry, plan_import};
use bowline_settings::ConfigEditor;

use self::host_files::{FileProblem, find_files, read_files, refuse_unreadable};
use self::secret_files::SecretFiles;
use self::unused_secrets::{find_secrets, remove_unused_secrets};
use super::entries::{own_file, take_turn};
use crate::args::ImportServersArgs;
use crate::dialog::{ConfirmQuestion, Dialogs};
use crate::failure::{Failure, Outcome};
use crate::print::units;
use crate::settings::Settings;

/// What would be done, and with which files.
struct Import {
    planned: Vec<PlannedServer>,
    problems: Vec<FileProblem>,
    /// Our configuration as it was when this was planned.
    before: String,
}

pub(super) async fn run(args: ImportServersArgs, settings: &Settings) -> Outcome {
    let printer = &settings.printer;
    let import = Import::plan(&args, settings)?;
    let path = own_file(settings)?;
    let written = import.written().count();
    if !printer.is_json() {
        import.show(path, &args, settings)?;
    }
    if written == 0 || args.dry_run {
        return import.finish(path, &args, false, settings);
    }
    if !args.yes
        && let Err(failure) = import.approve(settings).await
    {
        // Machines get the list also if nobody could be asked.
        if printer.is_json() {
            import.write_json(path, &args, false, settings)?;
        }
        return Err(failure);
    }
    import.write(&args, settings).await?;
    import.finish(path, &args, true, settings)
}

impl Import {
    fn plan(args: &ImportServersArgs, settings: &Settings) -> Outcome<Self> {
        let files = find_files(&args.sources, args.project, settings)?;
        let (found, problems) = read_files(files, settings);
        refuse_unreadable(&problems)?;
        let editor = ConfigEditor::open(own_file(settings)?)?;
        let before = editor.text();
        let source = Source::new(editor.path(), &*before);
        let planned = plan_import(found, &source, &*settings.env, args.replace);
        Ok(Self { planned, problems, before })
    }

    /// The servers that the configuration is changed for.
    fn written(&self) -> impl Iterator<Item = &PlannedServer> {
        self.planned.iter().filter(|planned| planned.is_written())
    }

    /// Whether another plan changes the configuration in the same way.
    fn writes_same_as(&self, other: &Self) -> bool {
        let change =
            |planned: &PlannedServer| (planned.target.clone(), planned.action, planned.entry.clone());
        self.written().map(change).eq(other.written().map(change))
    }

    /// Asks whether to do it. What would be started is shown above.
    // SE-04
    async fn approve(&self, settings: &Settings) -> Outcome<()> {
        let path = own_file(settings)?.display();
        let count = |action| self.written().filter(|planned| planned.action == action).count();
        let mut text = match (count(ImportAction::Add), count(ImportAction::Replace)) {
            (added, 0) => format!("Add {} to {path}?", units::count(added, "server")),
            (0, replaced) => format!("Replace {} in {path}?", units::count(replaced, "server")),
            (added, replaced) => {
                format!("Add {} to {path}, and replace {replaced}?", units::count(added, "server"))
            }
        };
        let starts =
            |planned: &&PlannedServer| planned.entry.as_ref().is_some_and(ServerEntry::starts_program);
        if self.written().any(|planned| starts(&planned)) {
            text.push_str(" Their commands run with your rights when they are used.");
        }
        let question = ConfirmQuestion {
            text: &text,
            yes: "Yes",
            no: "No",
            unasked_message: "nothing was imported".to_owned(),
            unasked_hint: "use --yes to import what is listed, or --dry-run only to look",
        };
        if Dialogs::open(&settings.printer, &*settings.env).confirm(question).await? {
            return Ok(());
        }
        Err(Failure::usage("nothing was imported"))
    }

    /// Writes all entries in one step, if they are still what was shown.
    async fn write(&self, args: &ImportServersArgs, settings: &Settings) -> Outcome<()> {
        let _turn = take_turn(settings).await?;
        let mut editor = ConfigEditor::open(own_file(settings)?)?;
        let before = editor.text();
        if before != self.before && !Self::plan(args, settings)?.writes_same_as(self) {
            let message = format!("{} was changed meanwhile; nothing was imported", editor.path().display());
            return Err(Failure::usage_hint(message, "try again"));
        }
        let stored_before = find_secrets(&editor, settings);
        let mut secrets = SecretFiles::beside(editor.path(), before.clone());
        for planned in self.written() {
            let Some(mut entry) = planned.entry.clone() else { continue };
            if args.store_secrets {
                secrets.take_from(&planned.target, &mut entry);
            }
            editor.set_server(&planned.target, &entry.keys());
        }
        let known = problems(&Source::new(editor.path(), before), settings, &secrets);
        let all = problems(&Source::new(editor.path(), editor.text()), settings, &secrets);
        let is_new = |problem: &bowline::config::Problem| {
            !known.iter().any(|known| known.key == problem.key && known.message == problem.message)
        };
        let new: Vec<_> = all.into_iter().filter(is_new).collect();
        if !new.is_empty() {
            return Err(Failure::config("the configuration would have problems; nothing was imported", new));
        }
        let saved = secrets.save()?;
        saved.notes.iter().for_each(|note| settings.printer.note(note));
        editor.save().inspect_err(|_| saved.remove_unnamed(editor.path()))?;
        remove_unused_secrets(&stored_before, &editor, settings);
        Ok(())
    }
}

/// The problems of a configuration in which secrets are in files that need not be written yet.
fn problems(source: &Source, settings: &Settings, secrets: &SecretFiles) -> Vec<bowline::config::Problem> {
    let (_, errors) = parse_partial(source, &secrets.environment(&*settings.env));
    errors.map(|errors| errors.problems().to_vec()).unwrap_or_default()
}
