//! Resolves references: `$id`, `$anchor` and JSON pointers, all within one document (JS-03).

use std::collections::HashMap;

use bowline_transport::percent_decode_lossy;
use serde_json::Value;
use url::Url;

use crate::schema::{SchemaError, truncate_display};

/// A part with its own `$id`, or the document as a whole.
pub(super) type Resource = u32;

/// Everything in a document that can be referred to.
pub(super) struct ReferenceTable<'s> {
    resources: Vec<SchemaResource<'s>>,
    by_url: HashMap<String, Resource>,
    anchors: HashMap<(Resource, Box<str>), &'s Value>,
}

struct SchemaResource<'s> {
    url: Url,
    root: &'s Value,
}

/// The target of a reference.
pub(super) struct ResolvedRef<'s> {
    pub(super) schema: &'s Value,
    pub(super) resource: Resource,
}

/// Base URL of a document without `$id`, against which relative references are resolved.
const DEFAULT_BASE_URL: &str = "json-schema:///";

impl<'s> ReferenceTable<'s> {
    pub(super) fn new(root: &'s Value) -> Self {
        let url = Url::parse(DEFAULT_BASE_URL).expect("a URL");
        let by_url = [(url.as_str().to_owned(), 0)].into();
        Self { resources: vec![SchemaResource { url, root }], by_url, anchors: HashMap::new() }
    }

    /// Number of resources, including the document.
    pub(super) fn resources(&self) -> usize {
        self.resources.len()
    }

    /// Registers a part with its own `$id`.
    pub(super) fn resource(
        &mut self,
        outer: Resource,
        name: &str,
        root: &'s Value,
    ) -> Result<Resource, SchemaError> {
        let mut url = self.resolve_url(outer, name)?;
        url.set_fragment(None);
        if std::ptr::eq(root, self.resources[0].root) {
            // The document itself. Its default URL cannot clash with a name.
            self.resources[0].url = url.clone();
            self.by_url.insert(url.into(), 0);
            return Ok(0);
        }
        let resource = Resource::try_from(self.resources.len()).map_err(|_| SchemaError::TooManyParts)?;
        if self.by_url.insert(url.as_str().to_owned(), resource).is_some() {
            return Err(SchemaError::Invalid(format!("two parts are called {}", truncate_display(&url))));
        }
        self.resources.push(SchemaResource { url, root });
        Ok(resource)
    }

    pub(super) fn anchor(
        &mut self,
        resource: Resource,
        name: &str,
        schema: &'s Value,
    ) -> Result<(), SchemaError> {
        match self.anchors.insert((resource, name.into()), schema) {
            // A part may have the same anchor twice, for `$ref` and for `$dynamicRef`.
            Some(other) if !std::ptr::eq(other, schema) => {
                Err(SchemaError::Invalid(format!("two parts are called #{}", truncate_display(&name))))
            }
            _ => Ok(()),
        }
    }

    /// Resolves `reference` in `from`. `known` returns the resource of a part.
    pub(super) fn find(
        &self,
        from: Resource,
        reference: &str,
        known: impl Fn(&Value) -> Option<Resource>,
    ) -> Result<ResolvedRef<'s>, SchemaError> {
        let mut url = self.resolve_url(from, reference)?;
        let fragment = percent_decode_lossy(url.fragment().unwrap_or_default()).into_owned();
        url.set_fragment(None);
        let Some(&resource) = self.by_url.get(url.as_str()) else {
            return Err(SchemaError::Remote(truncate_display(&reference)));
        };
        let dangling = || SchemaError::Dangling(truncate_display(&reference));
        let root = self.resources[resource as usize].root;
        if fragment.is_empty() {
            return Ok(ResolvedRef { schema: root, resource });
        }
        if !fragment.starts_with('/') {
            let anchored = self.anchors.get(&(resource, Box::from(&*fragment)));
            return anchored.map(|&schema| ResolvedRef { schema, resource }).ok_or_else(dangling);
        }
        let mut target = ResolvedRef { schema: root, resource };
        for token in fragment.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            let next = match target.schema {
                Value::Object(members) => members.get(&token),
                Value::Array(elements) => token.parse::<usize>().ok().and_then(|at| elements.get(at)),
                _ => None,
            };
            target.schema = next.ok_or_else(dangling)?;
            // The pointer may lead into a part with its own `$id`.
            target.resource = known(target.schema).unwrap_or(target.resource);
        }
        Ok(target)
    }

    fn resolve_url(&self, base: Resource, reference: &str) -> Result<Url, SchemaError> {
        let base = &self.resources[base as usize].url;
        // An invalid URL cannot point into the document.
        base.join(reference).map_err(|_| SchemaError::Remote(truncate_display(&reference)))
    }
}
