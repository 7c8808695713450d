//! Expansion snapshots of the main shapes, in `snapshots/`. After a change, run with `UPDATE_EXPECT=1` and read
//! the difference.

use expect_test::{ExpectFile, expect_file};
use proc_macro2::TokenStream;
use quote::quote;

fn check(args: TokenStream, item: TokenStream, expected: &ExpectFile) {
    let tokens = crate::attribute::expand(args.clone(), item.clone());
    let file = syn::parse2(tokens).unwrap_or_else(|error| panic!("the expansion does not parse: {error}"));
    let input = syn::parse2(quote!(#[distributed_lock(#args)] #item)).unwrap();
    let commented: String =
        prettyplease::unparse(&input).lines().map(|line| format!("// {line}\n")).collect();
    expected.assert_eq(&format!("{commented}\n{}", prettyplease::unparse(&file)));
}

macro_rules! snapshots {
    ($($name:ident: ($($args:tt)*) { $($item:tt)* })*) => {$(
        #[test]
        fn $name() {
            let expected = &expect_file![concat!("snapshots/", stringify!($name), ".rs")];
            check(quote!($($args)*), quote!($($item)*), expected);
        }
    )*};
}

snapshots! {
    async_fn: (key = "order:<user_id>", ttl = "10s") {
        async fn place_order(user_id: u64, cart: Cart) -> Result<Order, OrderError> {
            let order = cart.order()?;
            Ok(order)
        }
    }
    transaction: (key = "order:<user_id>", transaction = tx in self.pool, fence = fence) {
        async fn place_order(&self, user_id: u64) -> Result<Order, OrderError> {
            self.order(tx, fence, user_id).await
        }
    }
    once: (key = "order", transaction = tx in pool, once = "24h", once_of = (&a, &b), once_outcome = outcome) {
        async fn place_order(pool: &PgPool, a: A, b: B, outcome: &mut Outcome) -> Result<Order, OrderError> {
            order(tx, a, b).await
        }
    }
    blocking_transaction: (
        key = "order",
        transaction = tx in self.connections,
        once = "24h",
        once_outcome = outcome,
        on_lost = "continue"
    ) {
        fn place_order(&self, user_id: u64, outcome: &mut Outcome) -> Result<Order, OrderError> {
            self.order(tx, user_id)
        }
    }
    sync_fn: (key = "order:<user_id>", wait = "0s") {
        /// Documented.
        pub fn place_order(user_id: u64, cart: &mut Cart) -> Result<&mut Order, OrderError> {
            cart.order(user_id)
        }
    }
    sync_fn_that_continues: (key = "order", on_lost = "continue", release = "background", linger = "50ms") {
        fn place_order() -> Result<(), OrderError> {
            Ok(())
        }
    }
    method: (
        key = "{shop:<self.id>}:<item.number>:<note:raw>",
        manager = self.locks,
        guard = guard,
        token = token,
        retries = 3,
        retry_delay = "100ms",
        max_hold = self.limit,
        min_hold = "1s",
        reentrant = true,
        label = "shop"
    ) {
        async fn order<T: Display>(&mut self, item: &Item, note: T) -> Result<(), OrderError> {
            Ok(())
        }
    }
    no_renewal_and_for_ever: (
        key = format!("order:{}", id + 1),
        renew = false,
        wait = "forever",
        warn_wait = "5s",
        warn_hold = limit(),
        name = "order"
    ) {
        async fn order(id: u64) -> Result<(), OrderError> {
            Ok(())
        }
    }
    patterns: (key = "<id>:<name>") {
        async fn order(
            Path(id): Path<u64>,
            User { ref name, .. }: User,
            _: Transaction,
        ) -> Result<(), OrderError> {
            Ok(())
        }
    }
    when: (key = "order", when = amount > 100, wait = patience) {
        async fn order(amount: u64, patience: Duration) -> Result<(), OrderError> {
            Ok(())
        }
    }
    on_busy: (key = "order", on_busy = Ok(None)) {
        async fn order() -> Result<Option<u64>, OrderError> {
            Ok(Some(1))
        }
    }
    on_busy_returning_nothing: (key = "order", on_busy = (), on_error = log) {
        async fn order() {}
    }
    map_err: (key = "order", map_err = OrderError::Lock) {
        async fn order() -> Result<u64, OrderError> {
            Ok(1)
        }
    }
    opaque_return: (key = "order", on_error = |error| error.to_string()) {
        async fn order() -> impl Display {
            String::new()
        }
    }
    partly_opaque_return: (key = "order") {
        async fn order() -> Result<impl Iterator<Item = u64>, OrderError> {
            Ok(0..3)
        }
    }
    returned_future: (key = "order:<id>") {
        fn order(id: u64) -> impl Future<Output = Result<u64, OrderError>> + Send {
            let more = id + 1;
            async move {
                Ok(more)
            }
        }
    }
    async_trait: (key = "order:<self.id>:<id>", manager = self.locks) {
        fn order<'life0, 'async_trait>(
            &'life0 self,
            __arg1: Path<u64>,
        ) -> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = Result<u64, OrderError>> + ::core::marker::Send + 'async_trait>>
        where
            'life0: 'async_trait,
            Self: 'async_trait,
        {
            Box::pin(async move {
                if let ::core::option::Option::Some(__ret) = ::core::option::Option::None::<Result<u64, OrderError>> {
                    #[allow(unreachable_code)]
                    return __ret;
                }
                let __self = self;
                let Path(id) = {
                    let __arg1 = __arg1;
                    __arg1
                };
                let __ret: Result<u64, OrderError> = {
                    Ok(__self.id + id)
                };
                #[allow(unreachable_code)]
                __ret
            })
        }
    }
    trait_method: (key = "order", crate = crate::reexported::distlock) {
        #[inline]
        unsafe fn order(self: Arc<Self>) -> Result<u64, OrderError> {
            #![allow(unused)]
            Ok(1)
        }
    }
    mistakes: (key = "order:<usr_id>", ttl = 10, guard = guard) {
        async fn order(user_id: u64, (a, _): (u8, u8)) -> Result<(), OrderError> {
            guard.check()
        }
    }
}

#[test]
fn half_a_body_expands() {
    let body: TokenStream = "{ let x = cart. }".parse().unwrap();
    let tokens = crate::attribute::expand(
        quote!(key = "order"),
        quote!(async fn f(cart: Cart) -> Result<(), E> #body),
    );
    assert!(tokens.to_string().contains("let x = cart ."), "{tokens}");
    assert!(!tokens.to_string().contains("compile_error"), "{tokens}");
}

#[test]
fn half_an_attribute_keeps_the_function() {
    for args in
        ["", "key", "key =", "key = \"order:<", "key = \"a\", t", "key = \"a\", ttl = ,", "= = ,,", "\"a\""]
    {
        let Ok(args) = args.parse::<TokenStream>() else { continue };
        let tokens = crate::attribute::expand(
            args.clone(),
            quote!(
                async fn f(id: u64) -> Result<(), E> {
                    id.pow(2)
                }
            ),
        );
        assert!(tokens.to_string().contains("id . pow (2)"), "{args}: {tokens}");
        assert!(tokens.to_string().contains("compile_error"), "{args}: {tokens}");
    }
}

#[test]
fn key_macro() {
    let tokens = crate::key::expand(quote!("order:<id>:<name:raw>", id = order.id));
    let expected = expect_test::expect![[
        r#"match (& order . id ,) { (id ,) => :: distlock :: __private :: key (& [:: distlock :: __private :: Part :: Text ("order:") , :: distlock :: __private :: Part :: value ("id" , & id) , :: distlock :: __private :: Part :: Text (":") , :: distlock :: __private :: Part :: raw ("name" , & name)]) }"#
    ]];
    expected.assert_eq(&tokens.to_string());
}

/// Found by fuzzing: the text in braces or in a placeholder may not be a name at all.
#[test]
fn key_macro_without_names() {
    for template in [
        "{}",
        "{1}",
        "{a b}",
        "{crate}",
        "{a-b}",
        "<crate>",
        "<id.self>",
        "<id.4294967296>",
        "<a²>",
        "<super>",
    ] {
        let tokens = crate::key::expand(quote!(#template)).to_string();
        let is_text = template.starts_with('{') && template != "{}";
        assert_eq!(tokens.contains("compile_error"), !is_text, "{template}: {tokens}");
    }
    let tokens = crate::key::expand(quote!("<self.type>:<r#match>:<_id.0>")).to_string();
    assert!(!tokens.contains("compile_error"), "{tokens}");
}

/// `key!` knows the named values only. Any other word in braces may be a hash tag, if the template has a placeholder.
#[test]
fn key_macro_with_braces() {
    for (arguments, is_text) in [
        (quote!("{orders}:<id>"), true),
        (quote!("{orders}:<id>", id = 1), true),
        (quote!("{id}:<id>", id = 1), false),
        (quote!("{id}:<item>", id = 1), false),
        (quote!("{self.id}:<item>"), false),
        (quote!("order:{id}"), false),
    ] {
        let tokens = crate::key::expand(arguments.clone()).to_string();
        assert_eq!(tokens.contains("is literal text here"), !is_text, "{arguments}: {tokens}");
    }
}
