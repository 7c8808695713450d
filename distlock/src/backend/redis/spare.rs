//! The buffers of a command that was written, for the next one that is made on the same thread.

use std::cell::Cell;

use redis::Cmd;

/// The maximum size of commands whose buffers are kept. Larger ones, for a script's text or a batch, are rare.
const MOST_BYTES: usize = 1024;

thread_local! {
    static SPARE: Cell<Option<Cmd>> = const { Cell::new(None) };
}

/// An empty command, with room for this many arguments and bytes, or with the buffers of another one.
pub(super) fn command(arguments: usize, bytes: usize) -> Cmd {
    // Fails at the end of the thread.
    let spare = SPARE.try_with(Cell::take).ok().flatten();
    spare.unwrap_or_else(|| Cmd::with_capacity(arguments, bytes))
}

/// The command is no longer needed. It took this many bytes.
pub(super) fn give_back(mut cmd: Cmd, bytes: usize) {
    if bytes <= MOST_BYTES {
        cmd.clear();
        SPARE.try_with(|spare| spare.set(Some(cmd))).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(words: &[&str]) -> Vec<u8> {
        let mut cmd = command(1, 1);
        for word in words {
            cmd.arg(word);
        }
        let packed = cmd.get_packed_command();
        give_back(cmd, packed.len());
        packed
    }

    #[test]
    fn nothing_of_a_command_is_left_in_the_next() {
        let long = "x".repeat(2 * MOST_BYTES);
        assert_eq!(packed(&["SET", "k", "v"]), b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
        assert_eq!(packed(&["GET", "k"]), b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        packed(&["ECHO", &long]);
        assert_eq!(packed(&["PING"]), b"*1\r\n$4\r\nPING\r\n");
    }
}
