module github.com/http01-proxyd/http01-proxyd

go 1.26.0

require golang.org/x/sys v0.49.0
