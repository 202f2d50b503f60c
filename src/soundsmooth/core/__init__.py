"""What a certificate is made of: the values that are promised, and what follows from them."""
