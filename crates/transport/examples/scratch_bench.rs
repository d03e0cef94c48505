//! Scratch.
use bowline_transport::http::*;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use std::time::Instant;
use tokio::net::{TcpListener, TcpStream};

fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = s.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0
}

async fn raw_loop(addr: std::net::SocketAddr, n: usize, body: Bytes) {
    let s = TcpStream::connect(addr).await.unwrap();
    s.set_nodelay(true).unwrap();
    let (mut tx, conn) =
        hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(s)).await.unwrap();
    tokio::spawn(conn);
    for _ in 0..n {
        tx.ready().await.unwrap();
        let req = http::Request::post("/mcp")
            .header("host", "x")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(Full::new(body.clone()))
            .unwrap();
        let r = tx.send_request(req).await.unwrap();
        let b = r.into_body().collect().await.unwrap().to_bytes();
        assert!(b.len() > 50);
    }
}

async fn link_loop(link: HttpLink, n: usize, body: Bytes) {
    let mut h = HeaderMap::new();
    h.insert("mcp-session-id", "abc".parse().unwrap());
    h.insert("mcp-protocol-version", "2025-11-25".parse().unwrap());
    for _ in 0..n {
        let a = link.post(body.clone(), &h).await.unwrap();
        let Body::Json(b) = a.body else { panic!() };
        assert!(b.len() > 50);
    }
}

fn server() {
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    rt.block_on(async {
        let l = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", l.local_addr().unwrap());
        loop {
            let (s, _) = l.accept().await.unwrap();
            s.set_nodelay(true).unwrap();
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(
                TokioIo::new(s),
                hyper::service::service_fn(|r: http::Request<hyper::body::Incoming>| async {
                    let _ = r.into_body().collect().await.unwrap();
                    Ok::<_, std::convert::Infallible>(
                        http::Response::builder()
                            .header("content-type", "application/json")
                            .body(Full::new(Bytes::from_static(&[b'x'; 100])))
                            .unwrap(),
                    )
                }),
            ));
        }
    });
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("server") {
        return server();
    }
    use std::io::BufRead;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .arg("server")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let addr: std::net::SocketAddr = line.trim().parse().unwrap();
    for multi in [false, true] {
        let rt = if multi {
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
        } else {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
        };
        rt.block_on(async {
        let body = Bytes::from_static(&[b'y'; 100]);
        let cfg = bowline_config::Http { url: format!("http://{addr}/mcp").parse().unwrap(), headers: vec![], tls: Default::default() };
        let link = HttpLink::with_proxies(&cfg, Limits::default(), &Proxies::Direct).unwrap();
        raw_loop(addr, 1000, body.clone()).await; link_loop(link.clone(), 1000, body.clone()).await;
        for conc in [1usize, 64] {
            let total = 24000; let per = total / conc;
            let mut acc = [(0.0, 0.0); 2];
            for _ in 0..5 {
                for which in 0..2 {
                    let c0 = cpu(); let t = Instant::now();
                    let mut set = tokio::task::JoinSet::new();
                    for _ in 0..conc { let (b, l) = (body.clone(), link.clone()); set.spawn(async move { if which == 0 { raw_loop(addr, per, b).await } else { link_loop(l, per, b).await } }); }
                    while let Some(r) = set.join_next().await { r.unwrap(); }
                    acc[which].0 += t.elapsed().as_secs_f64(); acc[which].1 += cpu() - c0;
                }
            }
            let n = (per * conc * 5) as f64;
            println!("multi={multi} conc={conc}: raw {:.2}us cpu {:.2}us | link {:.2}us cpu {:.2}us | speed ratio {:.2} cpu ratio {:.2}",
                acc[0].0/n*1e6, acc[0].1/n*1e6, acc[1].0/n*1e6, acc[1].1/n*1e6, acc[0].0/acc[1].0, acc[1].1/acc[0].1);
        }
    });
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
