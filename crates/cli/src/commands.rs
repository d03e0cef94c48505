//! Implements the verbs, one file each: it resolves the settings it needs, does the work, and
//! prints.

mod add;
mod auth;
mod call;
mod complete;
mod config;
mod connect;
mod demo;
mod docs;
mod doctor;
mod editor;
mod entries;
mod import_servers;
mod info;
mod install;
mod list;
mod login;
mod logout;
mod logs;
mod ping;
mod prompt;
mod ps;
mod read;
mod repl;
mod resources;
mod search;
mod serve;
mod serving;
mod status;
mod tasks;
mod tool_result;
mod tools;
mod trust;
mod watch;

use crate::args::Verb;
use crate::failure::Outcome;
use crate::settings::Settings;

pub(crate) async fn run(verb: Verb, settings: &Settings) -> Outcome {
    match verb {
        Verb::Tools(args) => tools::run(args, settings).await,
        Verb::Search(args) => search::run(args, settings).await,
        Verb::Resources(args) => resources::run(args, settings).await,
        Verb::Templates(args) => list::templates(args, settings).await,
        Verb::Prompts(args) => list::prompts(args, settings).await,
        Verb::Call(args) => call::run(args, settings).await,
        Verb::Tasks(args) => tasks::run(args, settings).await,
        Verb::Read(args) => read::run(args, settings).await,
        Verb::Prompt(args) => prompt::run(args, settings).await,
        Verb::Repl(args) => repl::run(args, settings).await,
        Verb::Complete(args) => complete::run(args, settings).await,
        Verb::Logs(args) => logs::run(args, settings).await,
        Verb::Ping(args) => ping::run(args, settings).await,
        Verb::Info(args) => info::run(args, settings).await,
        Verb::Connect(args) => Box::pin(connect::run(args, settings)).await,
        Verb::Serve(args) => serve::run(args, settings).await,
        Verb::Login(args) => login::run(args, settings).await,
        Verb::Logout(args) => logout::run(args, settings).await,
        Verb::Auth(args) => auth::run(args, settings).await,
        Verb::Status(args) => status::run(args, settings).await,
        Verb::Watch(args) => watch::run(args, settings).await,
        Verb::Ps(args) => ps::run(args, settings).await,
        Verb::Doctor(args) => doctor::run(args, settings).await,
        Verb::Trust(args) => trust::run(args, settings).await,
        Verb::Untrust(args) => trust::run_untrust(args, settings),
        Verb::Add(args) => add::run(args, settings).await,
        Verb::Import(args) => import_servers::run(args, settings).await,
        Verb::Remove(args) => entries::remove(&args, settings).await,
        Verb::Enable(args) => entries::enable(&args, settings).await,
        Verb::Disable(args) => entries::disable(&args, settings).await,
        Verb::List => entries::list(settings),
        Verb::Edit => entries::edit(settings).await,
        Verb::Install(args) => install::run(args, settings).await,
        Verb::Uninstall(args) => install::run_uninstall(args, settings).await,
        Verb::Config(args) => config::run(args, settings),
        Verb::Shell(args) => docs::complete(args, settings).await,
        Verb::Completions(args) => docs::completions(&args),
        Verb::Man(args) => docs::man(args, settings),
        Verb::Demo(args) => demo::run(args, settings).await,
    }
}
