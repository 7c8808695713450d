//! Names that no variable has.

use distlock::key;

struct Row(u64);

impl Row {
    fn key(&self) -> bool {
        key!("<self>", self = self.0).is_ok()
            && key!("<Self>", Self = self.0).is_ok()
            && key!("<a>", super = self.0).is_ok()
            && key!("<a>", _ = self.0).is_ok()
            && key!("<a>", crate = self.0).is_ok()
    }
}

fn main() {}
