//! The attribute: for any text in its parentheses, and on any item, the output is Rust.
//!
//! The input is the text of the arguments; after a line break follows the text of an item, if there is one.

#![no_main]
#![allow(dead_code, reason = "what only the crate itself uses")]

#[path = "../../distlock-macros/src/args.rs"]
mod args;
#[path = "../../distlock-macros/src/attribute.rs"]
mod attribute;
#[path = "../../distlock-macros/src/diag/mod.rs"]
mod diag;
#[path = "../../distlock-macros/src/duration.rs"]
mod duration;
#[path = "../../distlock-macros/src/expand/mod.rs"]
mod expand;
#[path = "../../distlock-macros/src/item/mod.rs"]
mod item;
#[path = "../../distlock-macros/src/key.rs"]
mod key;
#[path = "../../distlock-macros/src/options.rs"]
mod options;
#[path = "../../distlock-macros/src/spec/mod.rs"]
mod spec;
#[path = "../../distlock-macros/src/template.rs"]
mod template;

use proc_macro2::TokenStream;

const ITEMS: [&str; 3] = [
    "async fn place_order(&self, user_id: u64, Path(id): Path<u64>, cart: Cart) -> Result<Order, E> { todo!() }",
    "fn place_order(user_id: u64, cart: &mut Cart) -> Option<&mut Order> { cart.order(user_id) }",
    "fn place_order(r#type: u64) -> Pin<Box<dyn Future<Output = Result<(), E>> + Send>> { Box::pin(async move { Ok(()) }) }",
];

libfuzzer_sys::fuzz_target!(|text: &str| {
    // Deeply nested source overflows the compiler's own parser long before it gets here.
    if text.len() > 4096 || text.bytes().filter(|byte| b"([{<&*-!".contains(byte)).count() > 64 {
        return;
    }
    let (args, item) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(args) = args.parse::<TokenStream>() else { return };
    if let Ok(item) = item.parse::<TokenStream>()
        && !item.is_empty()
    {
        // The text may not be an item at all, and then it is not changed.
        attribute::expand(args.clone(), item);
    }
    for item in ITEMS {
        let item: TokenStream = item.parse().expect("an item");
        let tokens = attribute::expand(args.clone(), item);
        // A method is not an item of a file.
        let tokens = quote::quote! { impl Shop { #tokens } };
        if !tokens.to_string().contains("compile_error") {
            syn::parse2::<syn::Item>(tokens).expect("Rust");
        }
    }
    key::expand(args);
});
