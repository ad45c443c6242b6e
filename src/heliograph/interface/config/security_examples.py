"""The heliograph.yaml that `heliograph config example --for NAME` prints: one for each way to secure clusters.

Each is complete, and holds no secret: passwords are references. docs/SECURITY.md shows the same texts, which a test
compares.
"""

from __future__ import annotations

from enum import StrEnum

_LINKS = """\

links:
  sf-to-nyc:
    source: sf
    target: nyc
    topics: ["orders", "payments.*"]
"""

_TLS = """\
# TLS: what is sent is encrypted, and a broker proves by its certificate who it is. The mirror itself proves nothing: to
# brokers that check rights it is User:ANONYMOUS.
version: 1
clusters:
  sf:
    bootstrap.servers: "kafka-1.sf.example.com:9093,kafka-2.sf.example.com:9093"
    security.protocol: SSL
    # The authorities that have signed the brokers' certificates, in PEM.
    ssl.truststore.type: PEM
    ssl.truststore.location: /etc/heliograph/sf-ca.pem
  nyc:
    bootstrap.servers: "kafka-1.nyc.example.com:9093"
    security.protocol: SSL
    # The same in a store of Java's keytool: PKCS12, or JKS, which is the default.
    ssl.truststore.type: PKCS12
    ssl.truststore.location: /etc/heliograph/nyc-truststore.p12
    ssl.truststore.password: "${file:/etc/heliograph/secrets.properties:nyc.truststore.password}"
"""

_MTLS = """\
# Mutual TLS: the mirror has a certificate, too. To brokers that check rights it is the certificate's subject, for
# example User:CN=mirror,O=Example.
version: 1
clusters:
  sf:
    bootstrap.servers: "kafka-1.sf.example.com:9094,kafka-2.sf.example.com:9094"
    security.protocol: SSL
    ssl.truststore.type: PEM
    ssl.truststore.location: /etc/heliograph/sf-ca.pem
    # One file in PEM: the private key (PKCS 8, encrypted), the mirror's certificate, and what signs it.
    ssl.keystore.type: PEM
    ssl.keystore.location: /etc/heliograph/sf-mirror.pem
    ssl.key.password: "${file:/etc/heliograph/secrets.properties:sf.key.password}"
  nyc:
    bootstrap.servers: "kafka-1.nyc.example.com:9094"
    security.protocol: SSL
    ssl.truststore.type: PKCS12
    ssl.truststore.location: /etc/heliograph/nyc-truststore.p12
    ssl.truststore.password: "${file:/etc/heliograph/secrets.properties:nyc.truststore.password}"
    ssl.keystore.type: PKCS12
    ssl.keystore.location: /etc/heliograph/nyc-mirror.p12
    ssl.keystore.password: "${file:/etc/heliograph/secrets.properties:nyc.keystore.password}"
"""

_SCRAM = """\
# Passwords, over TLS: SCRAM at sf, PLAIN at nyc. To brokers that check rights the mirror is User:mirror on both.
version: 1
clusters:
  sf:
    bootstrap.servers: "kafka-1.sf.example.com:9095,kafka-2.sf.example.com:9095"
    security.protocol: SASL_SSL
    ssl.truststore.type: PEM
    ssl.truststore.location: /etc/heliograph/sf-ca.pem
    sasl.mechanism: SCRAM-SHA-512        # or SCRAM-SHA-256
    sasl.jaas.config: >-
      org.apache.kafka.common.security.scram.ScramLoginModule required
      username="mirror" password="${file:/etc/heliograph/secrets.properties:sf.password}";
  nyc:
    # Without ssl.truststore.* brokers need a certificate of an authority that this machine trusts anyway.
    bootstrap.servers: "kafka.nyc.example.com:9095"
    security.protocol: SASL_SSL
    sasl.mechanism: PLAIN
    sasl.jaas.config: >-
      org.apache.kafka.common.security.plain.PlainLoginModule required
      username="mirror" password="${file:/etc/heliograph/secrets.properties:nyc.password}";
"""

_KERBEROS = """\
# Kerberos at sf, over TLS; a client certificate at nyc. To sf's brokers the mirror is User:mirror, by the first part of
# its principal.
version: 1
clusters:
  sf:
    bootstrap.servers: "kafka-1.sf.example.com:9096,kafka-2.sf.example.com:9096"
    security.protocol: SASL_SSL
    ssl.truststore.type: PEM
    ssl.truststore.location: /etc/heliograph/sf-ca.pem
    sasl.mechanism: GSSAPI
    # The first part of the brokers' principals: kafka/kafka-1.sf.example.com@SF.EXAMPLE.COM.
    sasl.kerberos.service.name: kafka
    sasl.jaas.config: >-
      com.sun.security.auth.module.Krb5LoginModule required
      useKeyTab=true keyTab="/etc/heliograph/sf.keytab" principal="mirror@SF.EXAMPLE.COM";
  nyc:
    bootstrap.servers: "kafka-1.nyc.example.com:9094"
    security.protocol: SSL
    ssl.truststore.type: PEM
    ssl.truststore.location: /etc/heliograph/nyc-ca.pem
    ssl.keystore.type: PEM
    ssl.keystore.location: /etc/heliograph/nyc-mirror.pem
    ssl.key.password: "${file:/etc/heliograph/secrets.properties:nyc.key.password}"
"""

_TWO_REALMS = """\
# Kerberos on both sides, in two realms that need not trust each other: each cluster has a principal and a keytab of its
# own. Both realms must be known to this machine: start the mirror with
#   export KRB5_CONFIG=/etc/heliograph/krb5-sf.conf:/etc/heliograph/krb5-nyc.conf
version: 1
clusters:
  sf:
    bootstrap.servers: "kafka-1.sf.example.com:9096,kafka-2.sf.example.com:9096"
    security.protocol: SASL_SSL
    ssl.truststore.type: PEM
    ssl.truststore.location: /etc/heliograph/sf-ca.pem
    sasl.mechanism: GSSAPI
    sasl.kerberos.service.name: kafka
    sasl.jaas.config: >-
      com.sun.security.auth.module.Krb5LoginModule required
      useKeyTab=true keyTab="/etc/heliograph/sf.keytab" principal="mirror@SF.EXAMPLE.COM";
  nyc:
    bootstrap.servers: "kafka-1.nyc.example.com:9097"
    security.protocol: SASL_PLAINTEXT    # Kerberos proves who is who; without TLS nothing is encrypted
    sasl.mechanism: GSSAPI
    sasl.kerberos.service.name: kafka
    sasl.jaas.config: >-
      com.sun.security.auth.module.Krb5LoginModule required
      useKeyTab=true keyTab="/etc/heliograph/nyc.keytab" principal="mirror@NYC.EXAMPLE.COM";
"""

_EXECUTORS = """\

spark:
  master: "local[*]"
  conf:
    # On a Spark cluster executors need the same, and the keytabs under the same paths.
    spark.executorEnv.KRB5_CONFIG: /etc/heliograph/krb5-sf.conf:/etc/heliograph/krb5-nyc.conf
"""


class SecuredBy(StrEnum):
    TLS = "tls"
    MTLS = "mtls"
    SCRAM = "scram"
    KERBEROS = "kerberos"
    TWO_REALMS = "two-realms"


SECURITY_EXAMPLES = {
    SecuredBy.TLS: _TLS + _LINKS,
    SecuredBy.MTLS: _MTLS + _LINKS,
    SecuredBy.SCRAM: _SCRAM + _LINKS,
    SecuredBy.KERBEROS: _KERBEROS + _LINKS,
    SecuredBy.TWO_REALMS: _TWO_REALMS + _LINKS + _EXECUTORS,
}
