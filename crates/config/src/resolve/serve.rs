//! Resolves `[serve]`.

use std::collections::BTreeSet;

use super::Resolver;
use crate::check;
use crate::problem::ProblemKind;
use crate::raw::{RawMap, RawServe, RawServeOauth};
use crate::report::{Finding, LocatedValue};
use crate::serve::{OAuthResource, ServeSettings};
use crate::suggest;

impl Resolver<'_, '_> {
    /// Resolves `[serve]`, which can name the views in `known`.
    pub(crate) fn resolve_serve(
        &mut self,
        table: LocatedValue<RawServe>,
        known: &BTreeSet<String>,
    ) -> ServeSettings {
        let RawServe { oauth, limits, garbled: _ } = table.value;
        ServeSettings {
            oauth: oauth.and_then(|oauth| self.resolve_serve_oauth(oauth, known)),
            limits: limits.map(|limits| self.resolve_serve_limits(limits)).unwrap_or_default(),
        }
    }

    fn resolve_serve_oauth(
        &mut self,
        table: LocatedValue<RawServeOauth>,
        known: &BTreeSet<String>,
    ) -> Option<OAuthResource> {
        let LocatedValue { value: raw, place } = table;
        let RawServeOauth { resource, issuers, scopes, views, garbled } = raw;
        let is_given = issuers.as_ref().is_some_and(|issuers| !issuers.value.is_empty());
        for (name, given, hint) in [
            ("resource", resource.is_some(), "the URL at which hosts reach the endpoint"),
            ("issuers", is_given, "the authorization servers whose tokens are accepted"),
        ] {
            if !given && !garbled.contains(&name) {
                self.report_missing(&place, &format!("needs `{name}`"), hint);
            }
        }
        let resource = resource.and_then(|text| self.resolve_text(text, check::served_resource));
        let mut accepted = Vec::new();
        for issuer in issuers.into_iter().flat_map(|issuers| issuers.value) {
            let place = issuer.place.clone();
            let Some(issuer) = self.resolve_text(issuer, check::issuer) else { continue };
            if accepted.contains(&issuer) {
                let twice = Finding::new(ProblemKind::InvalidValue, "this issuer is named twice");
                self.report.error(&place, twice);
            } else {
                accepted.push(issuer);
            }
        }
        let issuers = accepted;
        let scopes_place = scopes.as_ref().map(|scopes| scopes.place.clone());
        let scopes = self.resolve_optional(scopes, Self::resolve_scope);
        let scopes = scopes?.unwrap_or_default();
        if let Some(place) = scopes_place {
            for scope in &scopes {
                self.ok_or_report(&place, check::resource_scope(scope));
            }
        }
        let view_scopes = self.resolve_view_scopes(views, known);
        Some(OAuthResource { resource: resource?, issuers, scopes, view_scopes })
    }

    fn resolve_view_scopes(
        &mut self,
        views: Option<LocatedValue<RawMap>>,
        known: &BTreeSet<String>,
    ) -> Vec<(String, String)> {
        let mut resolved = Vec::new();
        if let Some(views) = views.as_ref().filter(|views| views.value.is_empty()) {
            // Nobody could open anything, or everybody everything: neither can be meant.
            let finding = Finding::new(ProblemKind::InvalidValue, "names no scope")
                .hint("leave it out to show everything to every valid token");
            self.report.error(&views.place, finding);
        }
        for (scope, view) in views.into_iter().flat_map(|views| views.value) {
            let place = view.place.clone();
            self.ok_or_report(&place, check::resource_scope(&scope.value));
            let Some(view) = self.resolve_text(view, check::no_nul) else { continue };
            if !known.contains(&view) {
                self.report.error(&place, unknown_view(&view, known));
            }
            resolved.push((scope.value, view));
        }
        resolved
    }
}

fn unknown_view(name: &str, known: &BTreeSet<String>) -> Finding {
    let finding = Finding::new(ProblemKind::InvalidValue, "this file has no view of this name");
    match suggest::closest(name, known.iter().map(String::as_str)) {
        Some(meant) => finding.hint(format!("did you mean \"{meant}\"?")),
        None => finding.hint("add it as `[views.NAME]`"),
    }
}
