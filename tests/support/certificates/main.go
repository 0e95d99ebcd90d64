// Writes the certificates that tests of https need into a folder: an authority, brokers' certificates that it signed (a
// good one, one that has expired), a broker's certificate of another authority, and that authority. Each broker's file
// holds its key too. They are made for every test run, and good for an hour.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

type signer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func main() {
	folder, names := os.Args[1], os.Args[2:]
	ours := authority(folder, "ca")
	broker(folder, "broker", ours, names, time.Now().Add(time.Hour))
	broker(folder, "expired", ours, names, time.Now().Add(-time.Hour))
	broker(folder, "stranger", authority(folder, "other-ca"), names, time.Now().Add(time.Hour))
}

func authority(folder, name string) signer {
	made := &x509.Certificate{
		Subject: pkix.Name{CommonName: "tests: " + name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return sign(filepath.Join(folder, name+".pem"), made, nil)
}

func broker(folder, name string, by signer, names []string, until time.Time) {
	made := &x509.Certificate{
		Subject: pkix.Name{CommonName: "tests: " + name}, NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, one := range names {
		if number := net.ParseIP(one); number != nil {
			made.IPAddresses = append(made.IPAddresses, number)
		} else {
			made.DNSNames = append(made.DNSNames, one)
		}
	}
	sign(filepath.Join(folder, name+".pem"), made, &by)
}

// sign writes a certificate; one that nobody signed signs itself, and its key stays here.
func sign(path string, made *x509.Certificate, by *signer) signer {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	made.SerialNumber = must(rand.Int(rand.Reader, big.NewInt(1<<62)))
	made.NotBefore = time.Now().Add(-2 * time.Hour)
	own := by == nil
	if own {
		by = &signer{made, key}
	}
	der := must(x509.CreateCertificate(rand.Reader, made, by.certificate, &key.PublicKey, by.key))
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if !own {
		secret := must(x509.MarshalPKCS8PrivateKey(key))
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		log.Fatal(err)
	}
	return signer{must(x509.ParseCertificate(der)), key}
}

func must[value any](made value, err error) value {
	if err != nil {
		log.Fatal(err)
	}
	return made
}
