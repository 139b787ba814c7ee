module github.com/http01-proxyd/http01-proxyd/test

go 1.26.0

tool (
	github.com/letsencrypt/pebble/v2/cmd/pebble
	github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv
)

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/go-logr/logr v1.4.3
	github.com/google/go-cmp v0.7.0
	github.com/jsimonetti/rtnetlink/v2 v2.0.2
	github.com/mdlayher/netlink v1.7.2
	golang.org/x/crypto v0.58.0
	golang.org/x/sync v0.22.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/go-jose/go-jose/v4 v4.1.4 // indirect
	github.com/josharian/native v1.1.0 // indirect
	github.com/letsencrypt/challtestsrv v1.4.2 // indirect
	github.com/letsencrypt/pebble/v2 v2.10.1 // indirect
	github.com/mdlayher/socket v0.4.1 // indirect
	github.com/miekg/dns v1.1.72 // indirect
	golang.org/x/mod v0.40.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/tools v0.49.0 // indirect
)
