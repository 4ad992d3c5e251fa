//! hyper for the garden: responds to each request with what the service has seen, in the field X-Seen, as garden.lua
//! describes. Built and started by servers.py; prints its port.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use std::fmt::Write;

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".into();
    }
    let mut text = String::new();
    for byte in &bytes[..bytes.len().min(100)] {
        let _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > 100 {
        let _ = write!(text, "+{}", bytes.len());
    }
    text
}

async fn show(req: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (method, target) = (req.method().clone(), req.uri().to_string());
    let host = req.headers().get("host").map_or(Vec::new(), |host| host.as_bytes().to_vec());
    let body = req.into_body().collect().await?.to_bytes();
    let seen = format!("{method} {} {} {}", hex(target.as_bytes()), hex(&host), hex(&body));
    let mut response = Response::new(Full::new(Bytes::from("seen\n")));
    if method == Method::CONNECT {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    }
    if let Ok(value) = seen.parse() {
        response.headers_mut().insert("X-Seen", value);
    }
    Ok(response)
}

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("port {}", listener.local_addr()?.port());
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                let io = hyper_util::rt::TokioIo::new(stream);
                let service = hyper::service::service_fn(show);
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
            });
        }
    })
}
