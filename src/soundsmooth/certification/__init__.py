"""What is promised, what Algorithm 2 concludes, and the certificate that says so."""
