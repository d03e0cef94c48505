//! Chooses the graphics protocol that the terminal supports, if any.

use bowline::config::Environment;

use crate::args::Images;
use crate::env;

/// A protocol to draw pictures in a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageProtocol {
    /// Kitty, Ghostty and others that adopted it: PNG in chunks.
    Kitty,
    /// iTerm2, WezTerm: a file, here a PNG.
    Iterm2,
    /// Many terminals since the VT340: stripes of six rows.
    Sixel,
}

/// Chooses the protocol from the option and the terminal. `query_sixel` finds out whether a terminal that
/// the environment does not identify supports sixels; it is called at most once, and only if it
/// matters.
pub(crate) fn choose_protocol(
    wanted: Images,
    terminal: bool,
    env: &dyn Environment,
    query_sixel: impl FnOnce() -> bool,
) -> Option<ImageProtocol> {
    match wanted {
        Images::None => None,
        Images::Kitty => Some(ImageProtocol::Kitty),
        Images::Iterm2 => Some(ImageProtocol::Iterm2),
        Images::Sixel => Some(ImageProtocol::Sixel),
        Images::Auto if !terminal => None,
        Images::Auto => match detect_from_env(env) {
            Detection::Supported(protocol) => Some(protocol),
            Detection::Unsupported => None,
            Detection::Unknown => query_sixel().then_some(ImageProtocol::Sixel),
        },
    }
}

/// What the environment says about the terminal.
enum Detection {
    Supported(ImageProtocol),
    /// No terminal, one that draws nothing, or a multiplexer that would garble pictures.
    Unsupported,
    Unknown,
}

fn detect_from_env(env: &dyn Environment) -> Detection {
    let var = |name: &str| env::non_empty_var(env, name).unwrap_or_default().to_ascii_lowercase();
    let (term, program) = (var(env::TERM), var(TERM_PROGRAM));
    // Multiplexers redraw text themselves, and lose or misplace sequences that they do not know.
    let between = ["tmux", "screen"].iter().any(|name| term.starts_with(name)) || !var("TMUX").is_empty();
    if between || term == "dumb" || term == "linux" {
        return Detection::Unsupported;
    }
    if term.contains("kitty")
        || term.contains("ghostty")
        || program == "ghostty"
        || !var("KITTY_WINDOW_ID").is_empty()
    {
        return Detection::Supported(ImageProtocol::Kitty);
    }
    if ["iterm.app", "wezterm"].contains(&&*program) || var("LC_TERMINAL") == "iterm2" {
        return Detection::Supported(ImageProtocol::Iterm2);
    }
    let sixel = ["foot", "mlterm", "yaft", "contour"].iter().any(|name| term.starts_with(name));
    if sixel || term.contains("sixel") || program == "mintty" {
        return Detection::Supported(ImageProtocol::Sixel);
    }
    // It is known to draw nothing, and may not answer a query.
    if program == "apple_terminal" { Detection::Unsupported } else { Detection::Unknown }
}

const TERM_PROGRAM: &str = "TERM_PROGRAM";

#[cfg(test)]
mod tests {
    use bowline::config::FixedEnvironment;

    use super::*;

    fn auto(vars: &[(&str, &str)], sixel: bool) -> Option<ImageProtocol> {
        let env =
            vars.iter().fold(FixedEnvironment::default(), |env, (name, value)| env.with_var(*name, *value));
        choose_protocol(Images::Auto, true, &env, || sixel)
    }

    #[test]
    fn terminals_by_their_environment() {
        for (vars, protocol) in [
            (&[("TERM", "xterm-kitty")][..], Some(ImageProtocol::Kitty)),
            (&[("TERM", "xterm-256color"), ("KITTY_WINDOW_ID", "1")], Some(ImageProtocol::Kitty)),
            (&[("TERM", "xterm-ghostty")], Some(ImageProtocol::Kitty)),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")], Some(ImageProtocol::Iterm2)),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "WezTerm")], Some(ImageProtocol::Iterm2)),
            (&[("TERM", "foot")], Some(ImageProtocol::Sixel)),
            // The multiplexer decides.
            (&[("TERM", "tmux-256color"), ("KITTY_WINDOW_ID", "1")], None),
            (&[("TERM", "xterm-kitty"), ("TMUX", "/tmp/tmux,1,0")], None),
            (&[("TERM", "dumb")], None),
        ] {
            assert_eq!(auto(vars, true), protocol, "{vars:?}");
        }
    }

    #[test]
    fn a_terminal_that_says_nothing_is_asked() {
        let vars = [("TERM", "xterm-256color")];
        assert_eq!(auto(&vars, true), Some(ImageProtocol::Sixel));
        assert_eq!(auto(&vars, false), None);
    }

    #[test]
    fn a_pipe_gets_pictures_only_when_told_to() {
        let env = FixedEnvironment::default().with_var("TERM", "xterm-kitty");
        let of = |wanted| choose_protocol(wanted, false, &env, || panic!("nobody to ask"));
        assert_eq!(of(Images::Auto), None);
        assert_eq!(of(Images::None), None);
        assert_eq!(of(Images::Sixel), Some(ImageProtocol::Sixel));
    }
}
