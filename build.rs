//! Generates the worker service's types from its protobuf source, without needing `protoc`.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["lockstep/worker/v1/worker.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".") // payloads are shared, not copied
        .btree_map(".") // headers come out in one order
        .compile_fds(descriptors)?;
    Ok(())
}
