//! Proxies that open connections: for `CONNECT`, and for SOCKS 5.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use super::raw::RawServer;

/// Serves one `CONNECT` by connecting to `server`, whatever name was requested. Returns the head of
/// the request.
pub(crate) async fn tunnel_once(raw: &RawServer, server: SocketAddr) -> String {
    let mut peer = raw.accept().await;
    let head = peer.request().await;
    let mut out = TcpStream::connect(server).await.unwrap();
    peer.write(b"HTTP/1.1 200 Connection established\r\n\r\n").await;
    tokio::spawn(async move { copy_bidirectional(&mut peer.socket, &mut out).await });
    head
}

/// Serves one SOCKS 5 connection without a login by connecting to `server`. Returns the requested
/// name.
pub(crate) async fn socks_once(raw: &RawServer, server: SocketAddr) -> String {
    let mut socket = raw.accept().await.socket;
    let mut hello = [0; 3];
    socket.read_exact(&mut hello).await.unwrap();
    assert_eq!(hello, [5, 1, 0]);
    socket.write_all(&[5, 0]).await.unwrap();
    let mut command = [0; 5];
    socket.read_exact(&mut command).await.unwrap();
    assert_eq!(command[..4], [5, 1, 0, 3], "connect to a name");
    let mut name = vec![0; usize::from(command[4]) + 2];
    socket.read_exact(&mut name).await.unwrap();
    name.truncate(name.len() - 2);
    let mut out = TcpStream::connect(server).await.unwrap();
    socket.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    tokio::spawn(async move { copy_bidirectional(&mut socket, &mut out).await });
    String::from_utf8(name).unwrap()
}
