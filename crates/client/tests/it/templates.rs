//! Expansion of resource templates (RS-05): the examples of RFC 6570, and hostile templates and
//! values.

use std::collections::BTreeMap;

use bowline::Client;
use bowline::templates::{Template, TemplateError, Value};
use bowline_testkit as testkit;
use proptest::prelude::*;

use crate::support::http;

/// The variables of RFC 6570, section 3.2. `undef` and `bar` have no value.
fn rfc_variables() -> BTreeMap<String, Value> {
    let values: [(&str, Value); 17] = [
        ("count", ["one", "two", "three"].into()),
        ("dom", ["example", "com"].into()),
        ("dub", "me/too".into()),
        ("hello", "Hello World!".into()),
        ("half", "50%".into()),
        ("var", "value".into()),
        ("who", "fred".into()),
        ("base", "http://example.com/home/".into()),
        ("path", "/foo/bar".into()),
        ("list", ["red", "green", "blue"].into()),
        ("keys", [("semi", ";"), ("dot", "."), ("comma", ",")].into()),
        ("v", "6".into()),
        ("x", "1024".into()),
        ("y", "768".into()),
        ("empty", "".into()),
        ("empty_keys", Value::Map(Vec::new())),
        ("empty_list", Value::List(Vec::new())),
    ];
    values.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Templates and their expansions, by section of the RFC.
const RFC_EXAMPLES: &[(&str, &str)] = &[
    // 3.2.1
    ("{count}", "one,two,three"),
    ("{count*}", "one,two,three"),
    ("{/count}", "/one,two,three"),
    ("{/count*}", "/one/two/three"),
    ("{;count}", ";count=one,two,three"),
    ("{;count*}", ";count=one;count=two;count=three"),
    ("{?count}", "?count=one,two,three"),
    ("{?count*}", "?count=one&count=two&count=three"),
    ("{&count*}", "&count=one&count=two&count=three"),
    // 3.2.2
    ("{var}", "value"),
    ("{hello}", "Hello%20World%21"),
    ("{half}", "50%25"),
    ("O{empty}X", "OX"),
    ("O{undef}X", "OX"),
    ("{x,y}", "1024,768"),
    ("{x,hello,y}", "1024,Hello%20World%21,768"),
    ("?{x,empty}", "?1024,"),
    ("?{x,undef}", "?1024"),
    ("?{undef,y}", "?768"),
    ("{var:3}", "val"),
    ("{var:30}", "value"),
    ("{list}", "red,green,blue"),
    ("{list*}", "red,green,blue"),
    ("{keys}", "semi,%3B,dot,.,comma,%2C"),
    ("{keys*}", "semi=%3B,dot=.,comma=%2C"),
    // 3.2.3
    ("{+var}", "value"),
    ("{+hello}", "Hello%20World!"),
    ("{+half}", "50%25"),
    ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
    ("{+base}index", "http://example.com/home/index"),
    ("O{+empty}X", "OX"),
    ("O{+undef}X", "OX"),
    ("{+path}/here", "/foo/bar/here"),
    ("here?ref={+path}", "here?ref=/foo/bar"),
    ("up{+path}{var}/here", "up/foo/barvalue/here"),
    ("{+x,hello,y}", "1024,Hello%20World!,768"),
    ("{+path,x}/here", "/foo/bar,1024/here"),
    ("{+path:6}/here", "/foo/b/here"),
    ("{+list}", "red,green,blue"),
    ("{+list*}", "red,green,blue"),
    ("{+keys}", "semi,;,dot,.,comma,,"),
    ("{+keys*}", "semi=;,dot=.,comma=,"),
    // 3.2.4
    ("{#var}", "#value"),
    ("{#hello}", "#Hello%20World!"),
    ("{#half}", "#50%25"),
    ("foo{#empty}", "foo#"),
    ("foo{#undef}", "foo"),
    ("{#x,hello,y}", "#1024,Hello%20World!,768"),
    ("{#path,x}/here", "#/foo/bar,1024/here"),
    ("{#path:6}/here", "#/foo/b/here"),
    ("{#list}", "#red,green,blue"),
    ("{#list*}", "#red,green,blue"),
    ("{#keys}", "#semi,;,dot,.,comma,,"),
    ("{#keys*}", "#semi=;,dot=.,comma=,"),
    // 3.2.5
    ("{.who}", ".fred"),
    ("{.who,who}", ".fred.fred"),
    ("{.half,who}", ".50%25.fred"),
    ("www{.dom*}", "www.example.com"),
    ("X{.var}", "X.value"),
    ("X{.empty}", "X."),
    ("X{.undef}", "X"),
    ("X{.var:3}", "X.val"),
    ("X{.list}", "X.red,green,blue"),
    ("X{.list*}", "X.red.green.blue"),
    ("X{.keys}", "X.semi,%3B,dot,.,comma,%2C"),
    ("X{.keys*}", "X.semi=%3B.dot=..comma=%2C"),
    ("X{.empty_keys}", "X"),
    ("X{.empty_keys*}", "X"),
    // 3.2.6
    ("{/who}", "/fred"),
    ("{/who,who}", "/fred/fred"),
    ("{/half,who}", "/50%25/fred"),
    ("{/who,dub}", "/fred/me%2Ftoo"),
    ("{/var}", "/value"),
    ("{/var,empty}", "/value/"),
    ("{/var,undef}", "/value"),
    ("{/var,x}/here", "/value/1024/here"),
    ("{/var:1,var}", "/v/value"),
    ("{/list}", "/red,green,blue"),
    ("{/list*}", "/red/green/blue"),
    ("{/list*,path:4}", "/red/green/blue/%2Ffoo"),
    ("{/keys}", "/semi,%3B,dot,.,comma,%2C"),
    ("{/keys*}", "/semi=%3B/dot=./comma=%2C"),
    // 3.2.7
    ("{;who}", ";who=fred"),
    ("{;half}", ";half=50%25"),
    ("{;empty}", ";empty"),
    ("{;v,empty,who}", ";v=6;empty;who=fred"),
    ("{;v,bar,who}", ";v=6;who=fred"),
    ("{;x,y}", ";x=1024;y=768"),
    ("{;x,y,empty}", ";x=1024;y=768;empty"),
    ("{;x,y,undef}", ";x=1024;y=768"),
    ("{;hello:5}", ";hello=Hello"),
    ("{;list}", ";list=red,green,blue"),
    ("{;list*}", ";list=red;list=green;list=blue"),
    ("{;keys}", ";keys=semi,%3B,dot,.,comma,%2C"),
    ("{;keys*}", ";semi=%3B;dot=.;comma=%2C"),
    // 3.2.8
    ("{?who}", "?who=fred"),
    ("{?half}", "?half=50%25"),
    ("{?x,y}", "?x=1024&y=768"),
    ("{?x,y,empty}", "?x=1024&y=768&empty="),
    ("{?x,y,undef}", "?x=1024&y=768"),
    ("{?var:3}", "?var=val"),
    ("{?list}", "?list=red,green,blue"),
    ("{?list*}", "?list=red&list=green&list=blue"),
    ("{?keys}", "?keys=semi,%3B,dot,.,comma,%2C"),
    ("{?keys*}", "?semi=%3B&dot=.&comma=%2C"),
    // 3.2.9
    ("{&who}", "&who=fred"),
    ("{&half}", "&half=50%25"),
    ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
    ("{&x,y,empty}", "&x=1024&y=768&empty="),
    ("{&x,y,undef}", "&x=1024&y=768"),
    ("{&var:3}", "&var=val"),
    ("{&list}", "&list=red,green,blue"),
    ("{&list*}", "&list=red&list=green&list=blue"),
    ("{&keys}", "&keys=semi,%3B,dot,.,comma,%2C"),
    ("{&keys*}", "&semi=%3B&dot=.&comma=%2C"),
];

/// RS-05: all operators are supported.
#[test]
fn rs_05_the_examples_of_the_rfc() {
    let values = rfc_variables();
    for (template, expansion) in RFC_EXAMPLES {
        assert_eq!(expand(template, &values), *expansion, "{template}");
    }
}

#[test]
fn rs_05_rules_of_the_rfc_without_examples() {
    let values: BTreeMap<_, _> = [
        ("e", Value::from("éé̄x")),
        ("pct", Value::from("a%20%2Fb%zz")),
        ("map", Value::from([("k", ""), ("é", "1")])),
        ("blank", Value::from([""])),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for (template, expansion) in [
        // A prefix counts characters and never splits one; a percent-encoded triplet that passes
        // through is one.
        ("{e:1}", "%C3%A9"),
        ("{e:2}", "%C3%A9%C3%A9"),
        ("{+pct:2}", "a%20"),
        ("{+pct:3}", "a%20%2F"),
        ("{pct:2}", "a%25"),
        // Reserved expansion keeps percent-encoded triplets and encodes the rest.
        ("{+pct}", "a%20%2Fb%25zz"),
        ("{pct}", "a%2520%252Fb%25zz"),
        // Empty values, by operator.
        ("{;map*}", ";k;%C3%A9=1"),
        ("{?map*}", "?k=&%C3%A9=1"),
        ("{map*}", "k=,%C3%A9=1"),
        ("{?blank*}", "?blank="),
        ("{;blank*}", ";blank"),
        ("a{/blank*}", "a/"),
        // Literals are encoded where necessary and otherwise kept.
        ("é/%2F/'{e:1}'", "%C3%A9/%2F/'%C3%A9'"),
        ("", ""),
    ] {
        assert_eq!(expand(template, &values), expansion, "{template}");
    }
    let names = Template::parse("{a}{?b.c,a*}{d%20e:3}").unwrap();
    assert_eq!(names.variables().collect::<Vec<_>>(), ["a", "b.c", "d%20e"]);
}

/// An invalid template is refused as a whole.
#[test]
fn rs_05_invalid_templates_are_refused() {
    for bad in [
        "{",
        "}",
        "{}",
        "{a",
        "a}",
        "{{a}}",
        "{a}}",
        "{+}",
        "{?}",
        "{a,}",
        "{,a}",
        "{a,,b}",
        "{a:}",
        "{a:0}",
        "{a:01}",
        "{a:10000}",
        "{a:-1}",
        "{a:x}",
        "{a:2*}",
        "{a*:2}",
        "{a**}",
        "{a b}",
        "{a, b}",
        "{a-b}",
        "{.}",
        "{a.}",
        "{.a.}",
        "{a..b}",
        "{=a}",
        "{!a}",
        "{@a}",
        "{|a}",
        "{$a}",
        "{??a}",
        "{/?a}",
        "{a?}",
        "{a|b}",
        "{é}",
        "{a%2}",
        "{%zz}",
        "%",
        "%2",
        "a b",
        "a\"b",
        "<a>",
        "a\\b",
        "a^b",
        "a`b",
        "a|b",
        "a\u{7}",
        "a\n",
    ] {
        assert!(matches!(Template::parse(bad), Err(TemplateError::Syntax { .. })), "{bad:?}");
    }
    let error = Template::parse("ab{cd,e f}").unwrap_err();
    assert_eq!(error.to_string(), "no URI template: no name of a variable at byte 6");
    let values = rfc_variables();
    for composite in ["{keys:1}", "{+keys:1}", "{?list:2}"] {
        let error = Template::parse(composite).unwrap().expand(&values).unwrap_err();
        assert!(matches!(error, TemplateError::NotText(_)), "{composite}: {error}");
    }
}

/// RS-05: templates and values are bounded in cost.
#[test]
fn rs_05_templates_and_values_are_bounded() {
    assert!(matches!(Template::parse(&"a".repeat(9_000)), Err(TemplateError::TooLarge(_))));
    assert!(matches!(Template::parse(&"{a}".repeat(300)), Err(TemplateError::TooLarge(_))));
    let names = vec!["a"; 300].join(",");
    assert!(matches!(Template::parse(&format!("{{{names}}}")), Err(TemplateError::TooLarge(_))));
    // Each use of a long value counts.
    let amplifier = Template::parse(&"{a}".repeat(200)).unwrap();
    let with = |value: Value| amplifier.expand(&[("a".to_owned(), value)].into());
    assert_eq!(with("x".repeat(1_000).into()), Err(TemplateError::TooLong));
    assert_eq!(with("\u{0}".repeat(200).into()), Err(TemplateError::TooLong));
    assert_eq!(with(Value::List(vec![String::new(); 1_000])), Err(TemplateError::TooLong));
    assert!(with("x".repeat(100).into()).is_ok());
}

/// A value stays in its place unless the template uses reserved expansion, and decodes to itself.
#[tokio::test]
async fn rs_05_hostile_values() {
    let values = BTreeMap::from([("name".to_owned(), Value::from("../../etc/passwd?x#y\r\nz"))]);
    assert_eq!(expand("f:///a/{name}", &values), "f:///a/..%2F..%2Fetc%2Fpasswd%3Fx%23y%0D%0Az");
    // Reserved expansion was requested by the server. Line breaks are encoded even so.
    assert_eq!(expand("f:///a/{+name}", &values), "f:///a/../../etc/passwd?x#y%0D%0Az");
    let server = testkit::server().template("f:///a/{name}").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let listed = client.list_resource_templates().await.unwrap();
    let uri = Template::parse(&listed[0].uri_template).unwrap().expand(&values).unwrap();
    client.read_resource(&uri).await.unwrap();
    assert_eq!(server.received_with_method("resources/read")[0].params()["uri"], uri);
    client.close().await;
}

proptest! {
    /// Simple expansion of any value decodes to exactly that value.
    #[test]
    fn rs_05_simple_expansion_can_be_read_back(value in any::<String>(), length in 1_usize..12) {
        let values = BTreeMap::from([("x".to_owned(), Value::from(value.as_str()))]);
        let written = Template::parse("{x}").unwrap().expand(&values);
        if let Ok(written) = written {
            prop_assert!(written.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)));
            prop_assert_eq!(percent_decode(&written), value.as_bytes());
        }
        let cut = expand(&format!("{{x:{length}}}"), &values);
        let expected: String = value.chars().take(length).collect();
        prop_assert_eq!(percent_decode(&cut), expected.as_bytes());
        // The other operators must not fail where this one succeeds, and give only URI characters.
        for operator in ["+", "#", ".", "/", ";", "?", "&"] {
            let uri = Template::parse(&format!("{{{operator}x*}}")).unwrap().expand(&values);
            prop_assert!(uri.is_ok_and(|uri| uri.bytes().all(|byte| byte.is_ascii_graphic())));
        }
    }

    /// Any text is a template or an error.
    #[test]
    fn rs_05_any_text_is_a_template_or_an_error(text in "[a-z{}+#./;?&,:*%0-9é\"|]{0,40}") {
        if let Ok(template) = Template::parse(&text) {
            let values = template.variables().map(|name| (name.to_owned(), Value::from("v/é%"))).collect();
            let uri = template.expand(&values).unwrap();
            prop_assert!(uri.is_ascii() && !uri.contains(['{', '}']), "{text} -> {uri}");
        }
    }
}

fn expand(template: &str, values: &BTreeMap<String, Value>) -> String {
    Template::parse(template).unwrap().expand(values).unwrap()
}

/// Decodes percent-encoded text.
fn percent_decode(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || char::from(bytes.next().unwrap()).to_digit(16).unwrap();
            let (high, low) = (digit(), digit());
            out.push(u8::try_from(high * 16 + low).unwrap());
        } else {
            out.push(byte);
        }
    }
    out
}
