//! Resolves what a gateway exposes of a server.

use std::collections::BTreeMap;

use super::Resolver;
use crate::check;
use crate::exposure::{Exposure, ToolPattern};
use crate::problem::ProblemKind;
use crate::raw::RawMap;
use crate::report::{Finding, LocatedValue};

/// The keys of a server that say what is exposed of it.
pub(super) struct ExposureKeys {
    pub(super) enabled_tools: Option<LocatedValue<Vec<LocatedValue<String>>>>,
    pub(super) disabled_tools: Option<LocatedValue<Vec<LocatedValue<String>>>>,
    pub(super) prompts: Option<LocatedValue<bool>>,
    pub(super) resources: Option<LocatedValue<bool>>,
    pub(super) tool_names: Option<LocatedValue<RawMap>>,
    pub(super) tool_descriptions: Option<LocatedValue<RawMap>>,
}

impl Resolver<'_, '_> {
    pub(super) fn resolve_exposure(&mut self, keys: ExposureKeys) -> Exposure {
        let ExposureKeys { enabled_tools, disabled_tools, prompts, resources, tool_names, tool_descriptions } =
            keys;
        Exposure {
            enabled_tools: enabled_tools.map(|patterns| self.resolve_patterns(patterns)),
            disabled_tools: disabled_tools
                .map(|patterns| self.resolve_patterns(patterns))
                .unwrap_or_default(),
            prompts: prompts.is_none_or(|prompts| prompts.value),
            resources: resources.is_none_or(|resources| resources.value),
            tool_names: self.resolve_tool_names(tool_names),
            tool_descriptions: self.resolve_tool_texts(tool_descriptions),
        }
    }

    fn resolve_patterns(&mut self, patterns: LocatedValue<Vec<LocatedValue<String>>>) -> Vec<ToolPattern> {
        let patterns = patterns.value.into_iter();
        patterns
            .filter_map(|pattern| self.resolve_text(pattern, check::no_nul).map(ToolPattern::new))
            .collect()
    }

    /// Two tools of a server cannot have the same name.
    fn resolve_tool_names(&mut self, names: Option<LocatedValue<RawMap>>) -> BTreeMap<String, String> {
        let mut resolved = BTreeMap::new();
        for (own, name) in names.into_iter().flat_map(|names| names.value) {
            let place = name.place.clone();
            let Some(name) = self.resolve_text(name, check::no_nul) else { continue };
            let finding = if name.is_empty() {
                Finding::new(ProblemKind::InvalidValue, "the name is empty")
            } else if resolved.values().any(|other| *other == name) {
                Finding::new(ProblemKind::Conflict, "another tool has this name already")
            } else {
                resolved.insert(own.value, name);
                continue;
            };
            self.report.error(&place, finding);
        }
        resolved
    }

    fn resolve_tool_texts(&mut self, texts: Option<LocatedValue<RawMap>>) -> BTreeMap<String, String> {
        let texts = texts.into_iter().flat_map(|texts| texts.value);
        texts.filter_map(|(own, text)| Some((own.value, self.resolve_text(text, check::no_nul)?))).collect()
    }
}
