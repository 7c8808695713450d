// #[distributed_lock(key = "order:<usr_id>", ttl = 10, guard = guard)]
// async fn order(user_id: u64, (a, _): (u8, u8)) -> Result<(), OrderError> {
//     guard.check()
// }

async fn order(user_id: u64, __distlock_arg1: (u8, u8)) -> Result<(), OrderError> {
    let (a, _) = __distlock_arg1;
    let _ = (&a,);
    let guard: &::distlock::Held = ::distlock::__private::placeholder();
    let _ = &guard;
    let _ = (&user_id,);
    guard.check()
}
::core::compile_error! {
    "unknown placeholder `<usr_id>`\n\n    order:<usr_id>\n          ^^^^^^^^\n\nhelp: did you mean `<user_id>`?"
}
::core::compile_error! {
    "a duration needs a unit: `ttl = 10`\n\nhelp: write `ttl = \"10s\"`"
}
