//! Hash slots of a cluster.
//! (Formula: <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model>.)

use std::sync::LazyLock;

/// How many slots there are.
pub(super) const SLOTS: u16 = 16384;

/// CRC16 in its XMODEM variant, byte by byte.
const TABLE: [u16; 256] = {
    let mut table = [0_u16; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc16(crc: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(crc, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) ^ u16::from(*byte)) & 0xff])
}

/// The part of `name` that alone decides its slot, if there is one: the text between its first `{` and the
/// next `}`, unless it is empty.
pub(super) fn hash_tag(name: &str) -> Option<&str> {
    let (_, rest) = name.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// The slot of `prefix` and `key` together. The first `{` of the prefix, if any, must have its `}` there too.
pub(super) fn slot_of(prefix: &str, key: &str) -> u16 {
    let of_key = if prefix.contains('{') { None } else { hash_tag(key) };
    let crc = match hash_tag(prefix).or(of_key) {
        Some(tag) => crc16(0, tag.as_bytes()),
        None => crc16(crc16(0, prefix.as_bytes()), key.as_bytes()),
    };
    crc % SLOTS
}

/// The smallest number that, as a hash tag, falls into `slot`. It must be the same for every client and every
/// version, because names on the server contain it.
pub(super) fn tag_of(slot: u16) -> u32 {
    static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
        let mut tags = vec![None; usize::from(SLOTS)];
        let mut missing = tags.len();
        for number in 0_u32.. {
            let slot = slot_of("", &number.to_string());
            if let Some(free @ None) = tags.get_mut(usize::from(slot)) {
                *free = Some(number);
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        tags.into_iter().map(Option::unwrap_or_default).collect()
    });
    TAGS.get(usize::from(slot)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(0, b"123456789"), 0x31c3);
        assert_eq!(slot_of("", "a}b"), 7866);
        assert_eq!(slot_of("", "{a}b}:q"), 15495);
        assert_eq!(slot_of("user:", "{42}:x"), slot_of("", "42"));
        assert_eq!(slot_of("", "foo{}{bar}"), crc16(0, b"foo{}{bar}") % SLOTS);
    }

    #[test]
    fn every_slot_has_its_tag() {
        for slot in 0..SLOTS {
            assert_eq!(slot_of("", &format!("x{{{}}}y", tag_of(slot))), slot);
        }
        assert_eq!((tag_of(slot_of("", "0")), tag_of(slot_of("", "7"))), (0, 7));
    }
}
