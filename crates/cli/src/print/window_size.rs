//! Measures the window of the terminal.

/// Returns the columns and rows of the window that the process is shown in, or `None` without one.
pub(crate) fn window_size() -> Option<(usize, usize)> {
    let (columns, rows) = measure()?;
    (columns > 0 && rows > 0).then_some((usize::from(columns), usize::from(rows)))
}

/// Asks the streams. The `size` of crossterm asks the controlling terminal instead, which need not
/// be where our output goes, and starts `tput` if there is none.
#[cfg(unix)]
fn measure() -> Option<(u16, u16)> {
    use std::io;
    use std::os::fd::AsFd as _;

    use rustix::termios::tcgetwinsize;

    let (out, err, input) = (io::stdout(), io::stderr(), io::stdin());
    let size = tcgetwinsize(out.as_fd()).or_else(|_| tcgetwinsize(err.as_fd()));
    let size = size.or_else(|_| tcgetwinsize(input.as_fd())).ok()?;
    Some((size.ws_col, size.ws_row))
}

#[cfg(not(unix))]
fn measure() -> Option<(u16, u16)> {
    crossterm::terminal::size().ok()
}
