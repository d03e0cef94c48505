//! Owns the way from the text of a file to a [`Config`]: the stages in their order, and what
//! becomes of an entry or a table with a problem.

use crate::config::Config;
use crate::dialect::{self, ViewEntry};
use crate::elicitation::ElicitationPolicy;
use crate::environment::Environment;
use crate::keys::KeyTable;
use crate::placeholder::Filler;
use crate::problem::{Errors, Problem, ProblemKind};
use crate::raw::{RawElicitation, RawFile, RawServe, RawView};
use crate::report::{LocatedValue, Report};
use crate::resolve::Resolver;
use crate::source::Source;
use crate::tree::{self, Node};

/// Parses a configuration, or returns everything that is wrong with it.
///
/// A disabled server whose placeholders cannot be filled is not an error: it is left out, with a
/// note.
pub fn parse(source: &Source, env: &dyn Environment) -> Result<Config, Errors> {
    let (config, errors) = parse_partial(source, env);
    match errors {
        None => Ok(config),
        Some(errors) => Err(errors),
    }
}

/// Parses what can be parsed: the servers without a problem, and the problems of the others. For
/// callers that should not lose all servers to one broken entry.
pub fn parse_partial(source: &Source, env: &dyn Environment) -> (Config, Option<Errors>) {
    let mut report = Report::new(source);
    let mut config = Config { sources: vec![source.path.clone()], ..Config::default() };
    if let Some(root) = tree::read(source, &mut report) {
        let filler = Filler::new(env, &source.path);
        let mut file = dialect::read_document(source.format, root, &mut report);
        let hooks = file.hooks.take().map_or_else(Vec::new, |hooks| hooks.value);
        let servers = file.servers.take().map_or_else(Vec::new, |servers| servers.value);
        let views = file.views.take().map_or_else(Vec::new, |views| views.value);
        let serve = file.serve.take();
        read_global_tables(file, &mut config, &mut report, filler);
        for hook in hooks {
            let mark = report.mark();
            let decoded = dialect::decode_hook(hook, &mut report);
            let hook = Resolver { report: &mut report, filler }.resolve_hook(decoded);
            // A hook with a problem is dropped: half of it could do something that was not asked
            // for.
            config.hooks.extend(hook.filter(|_| report.problems_since(&mark).is_empty()));
        }
        for mut entry in servers {
            let name = entry.name.clone();
            let mark = report.enter_server(&name);
            let raw = dialect::decode_server(source.format, &mut entry, &mut report);
            let disabled = raw.enabled.as_ref().is_some_and(|it| !it.value);
            let resolver = &mut Resolver { report: &mut report, filler };
            let server = resolver.resolve_server(entry, raw);
            let found = report.problems_since(&mark);
            let unresolved = |problem: &Problem| problem.kind == ProblemKind::Unresolved;
            match server {
                Some(server) if found.is_empty() => {
                    config.servers.insert(name, server);
                }
                _ => {
                    // Often disabled because its credentials are gone: worth a note, and no reason
                    // to refuse the file.
                    if disabled && found.iter().all(unresolved) {
                        report.downgrade_since(&mark);
                    }
                    config.left_out.insert(name);
                }
            }
            report.leave_server();
        }
        // A view with a problem of its own is not missing.
        let known_views = views.iter().map(|(name, _)| name.clone()).collect();
        read_views(views, &mut config, &mut report, filler);
        let resolve = |resolver: &mut Resolver<'_, '_>, raw: LocatedValue<RawServe>| {
            Some(resolver.resolve_serve(raw, &known_views))
        };
        // With a problem in it, nothing of it is used, and whoever serves has to refuse to.
        let resolver = &mut Resolver { report: &mut report, filler };
        config.serve = read_table(serve, resolver, resolve).flatten().unwrap_or_default();
    }
    let (problems, notes) = report.finish();
    // A duplicate name, or one whose value is no table, is known only from its problem.
    let troubled = problems.iter().filter_map(|problem| problem.server.clone());
    config.left_out.extend(troubled);
    config.servers.retain(|name, _| !config.left_out.contains(name));
    config.notes = notes;
    (config, Errors::from_problems(problems))
}

/// Reads the tables for all servers. A table with a problem falls back to the cautious setting: no
/// model, elicitations declined, no roots, default auth settings.
fn read_global_tables<'a>(file: RawFile, config: &mut Config, report: &mut Report<'a>, filler: Filler<'a>) {
    let RawFile {
        servers: _,
        hooks: _,
        sampling,
        elicitation,
        roots,
        auth,
        store,
        views: _,
        serve: _,
        garbled: _,
    } = file;
    let resolver = &mut Resolver { report, filler };
    config.sampling = read_table(sampling, resolver, Resolver::resolve_sampling).unwrap_or_default();
    let policy = |_: &mut Resolver<'_, '_>, raw: LocatedValue<RawElicitation>| Some(raw.value.policy?.value);
    config.elicitation =
        read_table(elicitation, resolver, policy).unwrap_or(Some(ElicitationPolicy::Decline));
    config.roots = read_table(roots, resolver, Resolver::resolve_roots).unwrap_or(Some(Vec::new()));
    let app = |resolver: &mut Resolver<'_, '_>, raw| Some(resolver.resolve_app(raw));
    config.auth = read_table(auth, resolver, app).flatten().unwrap_or_default();
    config.store = read_table(store, resolver, Resolver::resolve_store).unwrap_or_default();
}

/// Reads the views. One with a problem is dropped: a host that asks for it is refused, and does not
/// get more than was meant.
fn read_views<'a>(views: Vec<ViewEntry>, config: &mut Config, report: &mut Report<'a>, filler: Filler<'a>) {
    // A server with a problem of its own is not missing.
    let known = config.servers.keys().chain(&config.left_out).cloned().collect();
    let resolver = &mut Resolver { report, filler };
    for (name, table) in views {
        let resolve = |resolver: &mut Resolver<'_, '_>, raw: LocatedValue<RawView>| {
            Some(resolver.resolve_view(&name, raw, &known))
        };
        if let Some(Some(view)) = read_table(Some(table), resolver, resolve) {
            config.views.insert(name, view);
        }
    }
}

/// Reads a table for all servers. The outer `None` is a table with a problem, which has been
/// reported; the inner one is a table that is absent or sets nothing.
#[expect(clippy::option_option, reason = "absent and wrong are two things here")]
fn read_table<'r, 'a, T: KeyTable, U>(
    table: Option<LocatedValue<Node>>,
    resolver: &mut Resolver<'r, 'a>,
    resolve: impl FnOnce(&mut Resolver<'r, 'a>, LocatedValue<T>) -> Option<U>,
) -> Option<Option<U>> {
    let Some(table) = table else { return Some(None) };
    let mark = resolver.report.mark();
    let raw = dialect::decode_table(table, resolver.report);
    let settings = raw.and_then(|raw| resolve(resolver, raw));
    resolver.report.problems_since(&mark).is_empty().then_some(settings)
}
