//! Owns how `[store]` is resolved.

use super::Resolver;
use crate::check;
use crate::loopback::is_loopback;
use crate::problem::ProblemKind;
use crate::raw::{RawBackend, RawStore};
use crate::report::{Finding, LocatedValue};
use crate::secret::Secret;
use crate::store::{StoreBackend, StoreConfig};

impl Resolver<'_, '_> {
    /// Resolves `[store]`; `None` if a reported problem leaves no usable store.
    pub(crate) fn resolve_store(&mut self, table: LocatedValue<RawStore>) -> Option<StoreConfig> {
        let LocatedValue { value: raw, place } = table;
        let RawStore { backend, path, url, key, garbled } = raw;
        if garbled.contains(&"backend") {
            return None;
        }
        let backend = match backend.map(|backend| backend.value).unwrap_or_default() {
            RawBackend::Sqlite => {
                if let Some(url) = url {
                    let finding = Finding::new(ProblemKind::Conflict, "belongs to `backend = \"valkey\"`")
                        .hint("set `backend = \"valkey\"` to use Valkey or Redis");
                    self.report.error(&url.place, finding);
                }
                match path {
                    Some(path) => StoreBackend::Sqlite(Some(self.resolve_path(Some(path))?)),
                    None => StoreBackend::Sqlite(None),
                }
            }
            RawBackend::Valkey => {
                if let Some(path) = path {
                    let finding = Finding::new(ProblemKind::Conflict, "belongs to `backend = \"sqlite\"`");
                    self.report.error(&path.place, finding);
                }
                if url.is_none() && !garbled.contains(&"url") {
                    let hint = "for example \"rediss://user:${PASSWORD}@keys.example.com:6379/0\"";
                    self.report_missing(&place, "needs `url`", hint);
                }
                StoreBackend::Valkey(self.resolve_store_url(url?)?)
            }
        };
        Some(StoreConfig { backend, key: key.map(|it| it.value).unwrap_or_default() })
    }

    /// Checks the URL of a Valkey or Redis server. Stored values are encrypted, but a password in
    /// the URL crosses the network as it is.
    fn resolve_store_url(&mut self, url: LocatedValue<String>) -> Option<Secret> {
        let place = url.place.clone();
        let text = self.fill(url)?;
        let url = self.ok_or_report(&place, check::database(&text))?;
        let cleartext = matches!(url.scheme(), "redis" | "valkey");
        if url.password().is_some() && cleartext && !is_loopback(&url) {
            let finding = Finding::new(
                ProblemKind::Doubtful,
                "the password is sent over a connection that others can read",
            )
            .hint("write a `rediss://` URL");
            self.report.note(&place, finding);
        }
        Some(Secret::new(text))
    }
}
