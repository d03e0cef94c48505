//! [`InjectedFault`]: a failure, the requests that it strikes, and how often. [`ArmedFaults`] holds
//! those that are not used up.

use parking_lot::Mutex;

use serde::{Deserialize, Serialize};

/// An injected failure of a test server. [`Fault`](crate::Fault) is one of the MCP server,
/// [`AuthFault`](crate::AuthFault) one of the authorization server.
#[must_use]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectedFault<K> {
    /// The name of the requests that it strikes; `None` for all but [`FaultBehavior::STRUCK_BY_NAME`].
    #[serde(default)]
    pub(crate) on: Option<String>,
    /// The tool whose calls it strikes; `None` for all.
    #[serde(default)]
    pub(crate) tool: Option<String>,
    /// How many matching requests it skips first.
    #[serde(default)]
    skip: u32,
    /// How often it strikes; `None` until it is disarmed.
    #[serde(default = "once")]
    times: Option<u32>,
    #[serde(default)]
    pub(crate) executed: bool,
    #[serde(rename = "do")]
    pub(crate) kind: K,
}

/// The traits of a kind of fault that decide when it strikes.
pub(crate) trait FaultBehavior: Clone {
    /// The name of the requests that are struck only by faults that name them.
    const STRUCK_BY_NAME: &'static str;

    /// Returns whether the fault decides the response. Others combine with each other and with one
    /// that decides.
    fn decides_response(&self) -> bool;

    /// Returns whether the fault needs the real response, or stands for one that was produced by
    /// executing the request.
    fn needs_execution(&self) -> bool;

    /// Returns whether the fault is in force from arming on, whatever is requested.
    fn is_always_active(&self) -> bool;
}

impl<K> InjectedFault<K> {
    pub(crate) fn from_kind(kind: K) -> Self {
        Self { on: None, tool: None, skip: 0, times: once(), executed: false, kind }
    }

    /// Limits the fault to requests of this name.
    ///
    /// - A [`Fault`](crate::Fault): a JSON-RPC method, `"GET"` or `"DELETE"` for those HTTP
    ///   requests, `"response"` for a client's response, `"accept"` for a new connection.
    /// - An [`AuthFault`](crate::AuthFault): an endpoint (`prm`, `metadata`, `authorize`, `token`,
    ///   `register`, `device`, `verify`, `revoke`, `jwks`, `userinfo`, `mcp`), a grant
    ///   (`authorization_code`, `refresh_token`, `client_credentials`, `device_code`, `jwt-bearer`,
    ///   `token-exchange`), or an exact path.
    pub fn on(mut self, name: &str) -> Self {
        self.on = Some(name.into());
        self
    }

    /// Skips this many matching requests first.
    pub fn skip(mut self, requests: u32) -> Self {
        self.skip = requests;
        self
    }

    /// Strikes this many times instead of once.
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Strikes until it is disarmed.
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    /// Strikes after the request was executed, in place of its response: a tool ran, a token was
    /// rotated, and the response is lost.
    pub fn executed(mut self) -> Self {
        self.executed = true;
        self
    }
}

/// The armed faults that have strikes left.
#[derive(Debug)]
pub(crate) struct ArmedFaults<K>(Mutex<Vec<InjectedFault<K>>>);

impl<K> Default for ArmedFaults<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: FaultBehavior> ArmedFaults<K> {
    pub(crate) fn add(&self, fault: InjectedFault<K>) {
        self.0.lock().push(fault);
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    pub(crate) fn remaining(&self) -> Vec<InjectedFault<K>> {
        self.0.lock().clone()
    }

    /// Returns whether a fault is armed whose kind is this one.
    pub(crate) fn contains_kind(&self, kind: &K) -> bool
    where
        K: PartialEq,
    {
        self.0.lock().iter().any(|fault| fault.kind == *kind)
    }

    /// Returns the faults that strike a request with these names, and counts their strikes down.
    /// `tool` is the tool that it calls. Of the faults that decide the response, only the one armed
    /// first strikes.
    pub(crate) fn take_matching(&self, names: &[&str], tool: Option<&str>) -> MatchedFaults<K> {
        let mut matched = MatchedFaults::default();
        self.0.lock().retain_mut(|fault| {
            let decides = fault.kind.decides_response();
            if fault.kind.is_always_active()
                || !matches_request(fault, names, tool)
                || (decides && matched.deciding.is_some())
            {
                return true;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                return true;
            }
            if fault.times == Some(0) {
                return false;
            }
            if decides {
                matched.deciding = Some(fault.clone());
            } else {
                matched.additive.push(fault.clone());
            }
            match &mut fault.times {
                None => true,
                Some(times) => {
                    *times -= 1;
                    *times > 0
                }
            }
        });
        matched
    }
}

/// The faults that strike one request.
#[derive(Debug)]
pub(crate) struct MatchedFaults<K> {
    /// Those that leave the response to others, in the order they were armed.
    pub(crate) additive: Vec<InjectedFault<K>>,
    pub(crate) deciding: Option<InjectedFault<K>>,
}

impl<K> Default for MatchedFaults<K> {
    fn default() -> Self {
        Self { additive: Vec::new(), deciding: None }
    }
}

impl<K: FaultBehavior> MatchedFaults<K> {
    /// Returns the deciding fault, if it strikes before the request is executed.
    pub(crate) fn before_execution(&self) -> Option<&K> {
        self.deciding.as_ref().filter(|fault| !strikes_after_execution(fault)).map(|fault| &fault.kind)
    }

    /// Returns the deciding fault, if it strikes after the request was executed.
    pub(crate) fn after_execution(&self) -> Option<&K> {
        self.deciding.as_ref().filter(|fault| strikes_after_execution(fault)).map(|fault| &fault.kind)
    }
}

fn matches_request<K: FaultBehavior>(fault: &InjectedFault<K>, names: &[&str], tool: Option<&str>) -> bool {
    match &fault.on {
        None => !names.contains(&K::STRUCK_BY_NAME),
        Some(on) => names.contains(&on.as_str()) && (fault.tool.is_none() || fault.tool.as_deref() == tool),
    }
}

fn strikes_after_execution<K: FaultBehavior>(fault: &InjectedFault<K>) -> bool {
    fault.executed || fault.kind.needs_execution()
}

#[expect(clippy::unnecessary_wraps, reason = "serde wants the field's type")]
fn once() -> Option<u32> {
    Some(1)
}
