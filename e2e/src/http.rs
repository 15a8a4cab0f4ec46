//! One GET, for the monitoring port of a nats-server and our own metrics. HTTP/1.0, so that no
//! answer comes in chunks.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Status code and body.
pub async fn get(address: &str, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let odd = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("no HTTP answer: {answer}"),
        )
    };
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(odd)?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or_else(odd)?;
    Ok((status, body.to_owned()))
}
