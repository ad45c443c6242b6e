"""How connections to brokers are secured: from Kafka's properties to an `ssl.SSLContext` and a proof of who we are.

One value, `settings.Security`, configures every connection, those that carry data and those that ask and administer: so
neither can be less secure than the other.
"""
