//! The word classes of the grammar. To recognize another wording, add its words here.

/// The class of a word in a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Names the session, or its id.
    Session,
    /// Names the transport, as some servers call the session.
    Transport,
    /// A state after the end, such as `expired`.
    Ended,
    /// A state such as `invalid`, which may belong to any word after it.
    Invalid,
    /// A value such as `null`, from a program that did not check: a hint.
    Null,
    /// A state that means a loss only if negated, such as `valid`.
    Valid,
    /// A verb for using an existing session, such as `find`. Negated, it means a loss.
    Lookup,
    /// Negates what follows.
    Negation,
    /// A filler word that separates nothing.
    Filler,
    /// A filler word; a noun before it has its own state.
    Preposition,
    /// A part of the session, such as its key, which can be missing itself.
    Attribute,
    /// Names the handshake.
    Handshake,
    /// Says that the handshake was done.
    Initialized,
    /// Mentions credentials.
    Login,
    /// Mentions how many sessions there may be.
    Quantity,
    /// Mentions how long sessions live.
    Lifetime,
    /// Any other word.
    Other,
}

#[rustfmt::skip]
pub(super) fn classify(word: &str) -> Class {
    match word {
        "session" | "sessions" | "sessionid" | "sessionids" | "sessid" | "sid" | "mcpsession" | "mcpsessionid" => Class::Session,
        "transport" => Class::Transport,
        "expired" | "terminated" | "closed" | "gone" | "lost" | "stale" | "dead" | "died" | "evicted" | "deleted"
        | "removed" | "destroyed" | "ended" | "finished" | "reaped" | "purged" | "revoked" | "disconnected"
        | "dropped" | "discarded" | "forgotten" | "vanished" | "outdated" | "obsolete" | "killed" | "disposed"
        | "invalidated" | "aborted" | "inactive" | "timedout" | "timed" => Class::Ended,
        "unknown" | "missing" | "invalid" | "nonexistent" | "nonexisting" | "inexistent" | "unrecognized"
        | "unrecognised" | "unregistered" | "broken" | "corrupt" | "corrupted" | "mismatch" | "mismatched"
        | "mismatches" | "wrong" | "incorrect" | "illegal" | "orphaned" | "absent" | "bad" | "required" | "requires"
        | "require" | "needed" | "needs" => Class::Invalid,
        "null" | "undefined" | "none" | "nil" | "timeout" | "unavailable" => Class::Null,
        "found" | "exist" | "exists" | "existing" | "valid" | "active" | "known" | "recognized" | "recognised"
        | "provided" | "present" | "given" | "supplied" | "specified" | "included" | "alive" | "open" | "registered"
        | "matching" | "belong" | "belongs" | "associated" | "located" | "usable" | "available" | "corresponding" | "established" => Class::Valid,
        "find" | "locate" | "retrieve" | "resolve" | "lookup" | "look" | "load" | "get" | "resume" | "restore"
        | "recognize" | "recognise" | "match" | "matches" | "correspond" | "corresponds" | "validate" | "identify" => Class::Lookup,
        "no" | "not" | "never" | "non" | "cannot" | "cant" | "couldnt" | "isnt" | "wasnt" | "hasnt" | "havent" | "arent"
        | "doesnt" | "dont" | "didnt" | "unable" | "failed" | "without" => Class::Negation,
        "key" | "value" | "number" | "parameter" | "query" | "state" | "record" | "instance" | "object" => Class::Attribute,
        "id" | "ids" | "identifier" | "header" | "headers" | "mcp" | "http" | "https" | "streamable" | "sse" | "server" | "client"
        | "upstream" | "remote" | "backend" | "current" | "previous" | "old" | "error" | "err" | "exception"
        | "is" | "was" | "are" | "were" | "be" | "been" | "being" | "has" | "have" | "had" | "does" | "do" | "did"
        | "can" | "could" | "may" | "might" | "must" | "should" | "will" | "the" | "a" | "an" | "this" | "that" | "its"
        | "it" | "your" | "such" | "any" | "or" | "and" | "either" | "already" | "currently" | "yet" | "longer"
        | "anymore" | "now" | "probably" | "likely" | "exceeded" | "reached" | "possibly" | "fully" | "properly" | "complete" | "completed" | "out" | "up" => Class::Filler,
        "to" | "for" | "in" | "of" | "with" | "on" | "by" | "from" | "under" | "as" | "at" | "via" | "after" | "when" | "while"
        | "because" | "since" | "due" | "please" | "then" => Class::Preposition,
        "initialize" | "initialise" | "initialization" | "initialisation" | "initializing" | "initialising"
        | "handshake" | "reinitialize" | "reinitialise" => Class::Handshake,
        "initialized" | "initialised" => Class::Initialized,
        "token" | "tokens" | "credential" | "credentials" | "login" | "signin" | "password" | "jwt" | "oauth" | "bearer"
        | "apikey" | "scope" | "scopes" | "authenticate" | "authenticated" | "reauthenticate" | "authentication"
        | "unauthenticated" | "relogin" | "cookie" => Class::Login,
        "many" | "limit" | "limits" | "quota" | "maximum" | "max" | "concurrent" | "capacity" | "exhausted" | "pool" => Class::Quantity,
        "idle" | "time" | "age" | "lifetime" | "ttl" | "duration" | "inactivity" => Class::Lifetime,
        _ => Class::Other,
    }
}

/// Whether the grammar uses the word, so that it is not split at its capitals.
pub(super) fn is_known(word: &str) -> bool {
    let of_handshake = word.starts_with("uninitiali") || is_demand(word) || is_message_noun(word);
    classify(word) != Class::Other
        || of_handshake
        || matches!(word, "first" | "incomplete" | "user" | "owner")
}

/// Whether the word says that something has to come first.
#[rustfmt::skip]
pub(super) fn is_demand(word: &str) -> bool {
    matches!(
        word,
        "before" | "until" | "prior" | "without" | "expect" | "expects" | "expected" | "expecting" | "must" | "requires"
        | "require" | "required" | "needs" | "need" | "please" | "send" | "call" | "perform" | "missing"
    )
}

/// Whether the word names a message of the handshake.
pub(super) fn is_message_noun(word: &str) -> bool {
    matches!(word, "request" | "requests" | "message" | "call" | "method")
}

type Phrases = (&'static [&'static str], &'static [&'static str]);

/// Words for a session and words for its end in other languages, without accents.
#[rustfmt::skip]
pub(super) const PHRASES: &[Phrases] = &[
    (&["session", "seance"], &["introuvable", "expiree", "invalide", "inconnue", "terminee", "inexistante"]),
    (&["sesion", "sessao"], &["no encontrad", "nao encontrad", "caducad", "expirad", "invalida", "no valida", "no existe", "nao existe", "desconocid", "desconhecid", "cerrada", "encerrada"]),
    (&["sessione"], &["non trovat", "scadut", "non valid", "sconosciut", "inesistente"]),
    (&["sitzung", "session"], &["nicht gefunden", "abgelaufen", "ungultig", "unbekannt", "beendet", "existiert nicht"]),
    (&["sessie"], &["niet gevonden", "verlopen", "ongeldig", "onbekend", "bestaat niet"]),
    (&["сесси", "сеанс"], &["не найден", "истек", "истёк", "недействит", "неизвест", "не существ", "устарел"]),
    (&["会话", "會話", "工作階段", "session"], &["不存在", "未找到", "找不到", "过期", "過期", "无效", "無效", "失效", "未初始化", "已关闭", "已結束"]),
    (&["セッション", "session"], &["見つかりません", "見つからない", "見つかり ません", "期限切れ", "無効", "存在しません", "存在しない"]),
    (&["세션", "session"], &["만료", "찾을 수 없", "유효하지 않", "존재하지 않", "종료"]),
];

/// Words that only name a status, and the JSON members around it.
#[rustfmt::skip]
pub(super) const BOILERPLATE: &[&str] = &[
    "bad", "request", "invalid", "internal", "server", "error", "errors", "http", "status", "code", "message", "data", "event",
    "id", "null", "jsonrpc", "timestamp", "path", "type", "title", "detail", "details", "trace", "about", "blank", "instance",
    "name", "mcp", "exception", "java", "lang", "pointer", "nullpointerexception", "conflict", "unprocessable", "entity", "content",
    "true", "false", "success", "sse", "an", "occurred", "unexpected", "unknown", "something", "went", "wrong", "statuscode", "expect",
];
