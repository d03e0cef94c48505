//! Chooses the graphics protocol that the terminal supports, if any.

use bowline::config::Environment;

use crate::args::Images;
use crate::env;

/// A protocol to draw pictures in a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
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
pub(crate) fn chosen(
    wanted: Images,
    terminal: bool,
    env: &dyn Environment,
    asks: impl FnOnce() -> bool,
) -> Option<Protocol> {
    match wanted {
        Images::None => None,
        Images::Kitty => Some(Protocol::Kitty),
        Images::Iterm2 => Some(Protocol::Iterm2),
        Images::Sixel => Some(Protocol::Sixel),
        Images::Auto if !terminal => None,
        Images::Auto => match by_environment(env) {
            Known::Draws(protocol) => Some(protocol),
            Known::Nothing => None,
            Known::Unsaid => asks().then_some(Protocol::Sixel),
        },
    }
}

/// What the environment says about the terminal.
enum Known {
    Draws(Protocol),
    /// No terminal, one that draws nothing, or a multiplexer that would garble pictures.
    Nothing,
    Unsaid,
}

fn by_environment(env: &dyn Environment) -> Known {
    let var = |name: &str| env::given(env, name).unwrap_or_default().to_ascii_lowercase();
    let (term, program) = (var(env::TERM), var(TERM_PROGRAM));
    // Multiplexers redraw text themselves, and lose or misplace sequences that they do not know.
    let between = ["tmux", "screen"].iter().any(|name| term.starts_with(name)) || !var("TMUX").is_empty();
    if between || term == "dumb" || term == "linux" {
        return Known::Nothing;
    }
    if term.contains("kitty")
        || term.contains("ghostty")
        || program == "ghostty"
        || !var("KITTY_WINDOW_ID").is_empty()
    {
        return Known::Draws(Protocol::Kitty);
    }
    if ["iterm.app", "wezterm"].contains(&&*program) || var("LC_TERMINAL") == "iterm2" {
        return Known::Draws(Protocol::Iterm2);
    }
    let sixel = ["foot", "mlterm", "yaft", "contour"].iter().any(|name| term.starts_with(name));
    if sixel || term.contains("sixel") || program == "mintty" {
        return Known::Draws(Protocol::Sixel);
    }
    // It is known to draw nothing, and may not answer a query.
    if program == "apple_terminal" { Known::Nothing } else { Known::Unsaid }
}

const TERM_PROGRAM: &str = "TERM_PROGRAM";

#[cfg(test)]
mod tests {
    use bowline::config::Fixed;

    use super::*;

    fn auto(vars: &[(&str, &str)], sixel: bool) -> Option<Protocol> {
        let env = vars.iter().fold(Fixed::default(), |env, (name, value)| env.with_var(*name, *value));
        chosen(Images::Auto, true, &env, || sixel)
    }

    #[test]
    fn terminals_by_their_environment() {
        for (vars, protocol) in [
            (&[("TERM", "xterm-kitty")][..], Some(Protocol::Kitty)),
            (&[("TERM", "xterm-256color"), ("KITTY_WINDOW_ID", "1")], Some(Protocol::Kitty)),
            (&[("TERM", "xterm-ghostty")], Some(Protocol::Kitty)),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")], Some(Protocol::Iterm2)),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "WezTerm")], Some(Protocol::Iterm2)),
            (&[("TERM", "foot")], Some(Protocol::Sixel)),
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
        assert_eq!(auto(&vars, true), Some(Protocol::Sixel));
        assert_eq!(auto(&vars, false), None);
    }

    #[test]
    fn a_pipe_gets_pictures_only_when_told_to() {
        let env = Fixed::default().with_var("TERM", "xterm-kitty");
        let of = |wanted| chosen(wanted, false, &env, || panic!("nobody to ask"));
        assert_eq!(of(Images::Auto), None);
        assert_eq!(of(Images::None), None);
        assert_eq!(of(Images::Sixel), Some(Protocol::Sixel));
    }
}
