//! A list that nearly always has one item. It then needs no allocation.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::slice;

#[derive(Debug)]
pub(crate) enum Few<T> {
    None,
    One(T),
    Several(Vec<T>),
}

impl<T> Few<T> {
    pub(crate) fn push(&mut self, item: T) {
        if let Few::None = self {
            *self = Few::One(item);
            return;
        }
        *self = match mem::replace(self, Few::None) {
            Few::None => Few::One(item),
            Few::One(first) => Few::Several(vec![first, item]),
            Few::Several(mut items) => {
                items.push(item);
                Few::Several(items)
            }
        };
    }

    /// Takes out the item at `index`; the last one takes its place.
    pub(crate) fn swap_remove(&mut self, index: usize) -> Option<T> {
        match mem::replace(self, Few::None) {
            Few::One(item) if index == 0 => Some(item),
            Few::Several(mut items) if index < items.len() => {
                let item = items.swap_remove(index);
                if !items.is_empty() {
                    *self = Few::Several(items);
                }
                Some(item)
            }
            other => {
                *self = other;
                None
            }
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Few::None => &[],
            Few::One(item) => slice::from_ref(item),
            Few::Several(items) => items,
        }
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Few::None => &mut [],
            Few::One(item) => slice::from_mut(item),
            Few::Several(items) => items,
        }
    }
}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut Few<T> {
    type Item = &'a mut T;
    type IntoIter = slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_list() {
        for count in 0..4 {
            let mut few = Few::None;
            (0..count).for_each(|item| few.push(item));
            assert!(few.iter().copied().eq(0..count));
            assert_eq!(few.swap_remove(few.len()), None);
            for left in (0..count).rev() {
                assert!(few.swap_remove(0).is_some());
                assert_eq!(i32::try_from(few.len()).unwrap(), left);
            }
            assert!(matches!(few, Few::None));
        }
    }
}
