//! [`CallParking`]: where calls wait for the retries of their hosts.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bowline::{Json, RpcError};
use bowline_proto::server::modern::Refusal;
use bowline_proto::server::modern::input::{InputRetry, input_required};
use bowline_proto::server::modern::parked_calls::{Nonce, ParkLimits, ParkRefusal, ParkedCalls};
use bowline_proto::server::modern::request::ModernRequest;
use bowline_proto::server::modern::request_state::{
    Mac, NONCE_LEN, SealedState, StateBinding, StateRefusal, TAG_LEN, claimed_node,
};
use bowline_proto::wire::view::Implementation;
use bowline_server::Audience;
use parking_lot::Mutex;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio_util::task::AbortOnDropHandle;

use super::running_call::RunningCall;
use crate::error_response;

/// The parked calls, and the key that seals what hosts are given to find them again.
pub(super) struct CallParking {
    key: StateKey,
    /// The name of this process, which no other has.
    node: Box<str>,
    /// How long a host may take to answer.
    timeout: Duration,
    calls: Mutex<ParkedCalls<ParkedCall>>,
}

/// A request of a host that a call is for.
pub(super) struct HostRequest {
    pub(super) method: Box<str>,
    pub(super) params: Option<Json>,
    pub(super) client: ModernRequest,
    /// Who sends it, and for which view.
    pub(super) audience: Audience,
}

struct ParkedCall {
    call: Box<RunningCall>,
    /// Gives the call up when its time is over.
    _timer: AbortOnDropHandle<()>,
}

/// HMAC-SHA-256 with a key of this process.
struct StateKey(hmac::Key);

/// Most calls that wait for input.
const LIMITS: ParkLimits = ParkLimits { total: 1_000, per_client: 64 };

impl CallParking {
    pub(super) fn new(timeout: Duration) -> Arc<Self> {
        let [key, name] = [random::<32>(), random::<32>()];
        let node = name[..8].iter().fold(String::new(), |mut node, byte| {
            let _ = write!(node, "{byte:02x}");
            node
        });
        Arc::new(Self {
            key: StateKey(hmac::Key::new(hmac::HMAC_SHA256, &key)),
            node: node.into(),
            timeout,
            calls: Mutex::new(ParkedCalls::new(LIMITS)),
        })
    }

    /// Parks a call that has questions, and returns the result that asks them. Returns the call with
    /// the reason if that is not possible.
    // GW-07
    pub(super) fn park(
        self: &Arc<Self>,
        call: Box<RunningCall>,
        host: &HostRequest,
    ) -> Result<Json, (Box<RunningCall>, RpcError)> {
        let nonce = random::<NONCE_LEN>();
        let (client, principal) = (client_name(host), principal(host));
        // Never before the timer, which decides.
        let expires_at = seconds_now().saturating_add(self.timeout.as_secs()).saturating_add(2);
        let state = SealedState { expires_at, nonce, payload: Vec::new() };
        let Ok(state) = state.seal(&self.binding(&principal, host), &self.key) else {
            return Err((call, error_response::internal_error()));
        };
        let result =
            match input_required(&call.open_questions(), Some(&state), &host.client.client_capabilities) {
                Ok(result) => result,
                Err(error) => return Err((call, error.refusal().error)),
            };
        // The timer needs the lock, so it cannot be over before the call is parked.
        let mut calls = self.calls.lock();
        let (parking, wait) = (Arc::downgrade(self), self.timeout);
        let timer = AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            if let Some(parking) = parking.upgrade() {
                parking.give_up(&nonce);
            }
        }));
        match calls.park(nonce, &client, ParkedCall { call, _timer: timer }) {
            Ok(()) => Ok(result),
            Err(refused) => Err((refused.call, error_response::too_many_questions())),
        }
    }

    /// Takes the call that a retry continues, and gives its server the answers. `check` refuses a
    /// retry that does not fit the call, which then stays parked.
    // GW-07
    pub(super) fn resume(
        &self,
        retry: &InputRetry,
        host: &HostRequest,
        check: impl FnOnce(&RunningCall) -> Result<(), Refusal>,
    ) -> Result<Box<RunningCall>, RpcError> {
        let refused = |refusal: StateRefusal| {
            tracing::info!(%refusal, "a retry was refused");
            refusal.refusal().error
        };
        let text = retry.state.as_deref().ok_or_else(|| refused(StateRefusal::Malformed))?;
        let principal = principal(host);
        let opened = SealedState::open(text, &self.binding(&principal, host), seconds_now(), &self.key);
        let nonce = match opened {
            Ok(state) => state.nonce,
            Err(StateRefusal::Expired) => return Err(error_response::input_timeout()),
            // Its key is gone with the process that sealed it, and so is the call.
            Err(StateRefusal::Forged) if claimed_node(text).is_some_and(|node| node != self.node) => {
                return Err(error_response::call_lost());
            }
            Err(refusal) => return Err(refused(refusal)),
        };
        let mut calls = self.calls.lock();
        let parked = calls.get(&nonce).map_err(|refusal| match refusal {
            ParkRefusal::Used => {
                tracing::info!("a retry was refused: its state was used before");
                StateRefusal::Forged.refusal().error
            }
            ParkRefusal::GivenUp => error_response::input_timeout(),
        })?;
        check(&parked.call).map_err(|refusal| refusal.error)?;
        let answers = parked.call.find_answers(retry).map_err(|refusal| refusal.error)?;
        let ParkedCall { mut call, .. } = calls.take(&nonce).expect("it was just found");
        drop(calls);
        call.answer(answers);
        Ok(call)
    }

    /// Cancels all parked calls.
    pub(super) fn close(&self) {
        // Not while the lock is held: dropping a call does much.
        let calls = self.calls.lock().take_all();
        drop(calls);
    }

    fn give_up(&self, nonce: &Nonce) {
        let given_up = self.calls.lock().give_up(nonce);
        if let Some(ParkedCall { call, .. }) = given_up {
            tracing::info!("a host did not answer in time; its call is given up");
            tokio::spawn((*call).give_up());
        }
    }

    fn binding<'a>(&'a self, principal: &'a str, host: &'a HostRequest) -> StateBinding<'a> {
        StateBinding { principal, node: &self.node, method: &host.method, params: host.params.as_ref() }
    }
}

impl Mac for StateKey {
    fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_LEN] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(part);
        }
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

/// Who may continue a call: the client, and on a pipe that a process relays only the host on that pipe.
// SE-09
fn principal(host: &HostRequest) -> String {
    format!("{}\n{}", host.audience.pipe().unwrap_or_default(), client_name(host))
}

/// Who sends a request: its token and view, and its declared name and version. Many hosts have the
/// same token, so a name is no proof; a state is a secret of the host that got it.
fn client_name(host: &HostRequest) -> String {
    let info = host.client.client_info.as_ref().and_then(|info| Implementation::decode(info).ok());
    let info = info.map_or_else(String::new, |info| format!("{}\n{}", info.name, info.version));
    format!("{}\n{info}", host.audience)
}

/// The time in seconds since the epoch.
fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    bytes
}
